// Package errkind makes errors with their own text that match a sentinel.
package errkind
