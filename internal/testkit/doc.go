// Package testkit contains what the tests of several packages share: a clock, runs in memory,
// handlers with simple behavior, and checks of how a call ended. Values are compared with testify's
// assert and require; only checks specific to calls are defined here.
//
// Only tests may import this package.
package testkit
