// Package queuetest checks implementations of [runner.Queue]. [Run] is for all of them,
// [RunOrdered] for those that keep the order of their entries exactly, and [RunShared] for
// those that several processes have.
package queuetest
