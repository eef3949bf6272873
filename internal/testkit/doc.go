// Package testkit contains what the tests of several packages share: a clock, runs in memory,
// handlers with simple behavior, and checks of how a call ended. Tests compare values with
// testify's assert and require, so only the checks that are specific to calls are defined here.
//
// Only tests may import this package.
package testkit
