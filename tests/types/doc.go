// Package types tests that values of widely used types are restored unchanged, both in the same
// process and in a process in another time zone. It is a separate module, so that the modules with
// those types are not dependencies of Reprise.
package types
