// Package tests contains tests that need several packages of Reprise at once.
//
// What belongs where:
//
//   - A test of what one package promises is in that package, as an external
//     test (package x_test). Tests that need unexported names are in files
//     named *_internal_test.go.
//   - Package state contains the tests for runs, including runs in stores: what
//     is recorded, restored, interrupted and answered, with actors made with
//     package core. Its model test compares random programs with their replay.
//   - This package contains tests with programs that a user would write, using
//     actors, decorators, state and a store together. They check what a changed
//     program does with a stored run, that everything that is shown about a run is
//     redacted, that the documents (README, format) are correct, and that the golden
//     files in testdata can be read.
//   - The subdirectories contain tests that use processes, other programs and other
//     modules: crash, service and supportdesk kill processes, fulldisk runs out of disk
//     space, inbox posts messages from other processes, clients reads streams with other
//     libraries, browser drives a browser, recordings decodes replies recorded by other
//     libraries, and types restores values with types from other modules. seeds tests the
//     rules of other systems. browser, clients, recordings and types are separate modules.
//   - A test suite for the implementations of an interface is exported next to the
//     interface, such as snapshot/storetest.
//   - internal/testkit contains what several tests share.
package tests
