// Package errtree walks through an error and all errors that it wraps. Errors of
// handlers come from users and may wrap themselves.
package errtree
