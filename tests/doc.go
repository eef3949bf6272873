// Package tests contains tests that need several packages of Reprise at once.
//
// What belongs where:
//
//   - A test of what one package promises is in that package, as an external
//     test (package x_test). Tests that need what is not exported are in files
//     named *_internal_test.go.
//   - state has the tests of runs, also in stores: what is recorded, restored,
//     interrupted and answered, with actors made of package core. Its model
//     test compares random programs with their replay.
//   - Here are the programs that a user would write, with actors, decorators,
//     state and a store together: what a run that was killed and resumed comes
//     to, what is redacted on every way out, the documents that must be right
//     (README, format) and the golden files in testdata.
//   - Folders here have what needs the operating system: crash kills processes,
//     fulldisk runs out of disk, inbox writes from other processes, clients
//     reads streams with the libraries of others, browser drives a browser and
//     is a module of its own.
//   - Suites for implementations of an interface are exported beside it, such as
//     snapshot/storetest.
//   - internal/testkit has what several of these share.
package tests
