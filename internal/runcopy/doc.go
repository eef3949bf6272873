// Package runcopy copies runs between stores of any kind and verifies the contents of a store. It
// is used by the commands of the store adapters.
package runcopy
