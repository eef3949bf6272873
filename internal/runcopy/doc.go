// Package runcopy copies runs between stores of any kind and verifies the content of a
// store. The commands of the stores use it.
package runcopy
