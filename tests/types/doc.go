// Package types tests that values of the types that programs use come back as
// they went out: in the same process, and in another one on a machine in another
// time zone. It is a module of its own so that the modules of those types are no
// dependencies of Reprise.
package types
