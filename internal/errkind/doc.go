// Package errkind makes errors with a text of their own that are of a kind.
package errkind
