package retrybudget

// Text is what the budget allows.
func (b *Budget) Text() string { return b.text() }
