// Package runcopy copies runs between stores of any kind, and verifies what a store has, for
// the commands of the stores.
package runcopy
