// Package errkind creates errors that have their own text and match a sentinel.
package errkind
