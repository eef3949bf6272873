// Package testkit is what the tests of several packages share: a clock of their
// own, runs in memory, handlers with simple behaviour, and checks of how a call
// ended. Values are compared with testify's assert and require; the checks here
// are those that know about calls.
//
// Only tests may import it.
package testkit
