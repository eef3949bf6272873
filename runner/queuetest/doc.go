// Package queuetest checks implementations of [runner.Queue]. [Run] is for all of them,
// [RunOrdered] for those that keep the order of their entries exactly, [RunShared] for those that
// several processes share, and [RunAhead] for those whose server has a clock of its own.
package queuetest
