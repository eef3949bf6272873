// Package errtree walks through an error and all errors that it wraps. Errors of
// handlers are the users' own: they may wrap themselves.
package errtree
