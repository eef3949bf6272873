// Package errtree walks through an error and all the errors that it wraps. Handlers are user code,
// so an error may even wrap itself.
package errtree
