// Package queuetest checks implementations of [runner.Queue]. [Run] is for all queues, [RunOrdered]
// is for queues that keep the exact order of their entries, [RunShared] is for queues that several
// processes share, and [RunAhead] is for queues on a server that has its own clock.
package queuetest
