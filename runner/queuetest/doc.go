// Package queuetest checks implementations of [runner.Queue]. [Run] is for all queues, [RunOrdered]
// for queues that keep the order of their entries exactly, [RunShared] for queues that several
// processes share, and [RunAhead] for queues whose server has a clock of its own.
package queuetest
