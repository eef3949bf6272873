package runner

// NewHeapQueue returns the default queue of a runner.
func NewHeapQueue() Queue { return newHeapQueue() }
