package retrybudget

// Text returns the description of the budget.
func (b *Budget) Text() string { return b.text() }
