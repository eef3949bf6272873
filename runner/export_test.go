package runner

// NewHeapQueue returns the queue of a runner that is given none.
func NewHeapQueue() Queue { return newHeapQueue() }
