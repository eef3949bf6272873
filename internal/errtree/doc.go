// Package errtree walks through an error and all errors that it wraps. Handlers are user code, so
// their errors may even wrap themselves.
package errtree
