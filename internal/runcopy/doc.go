// Package runcopy copies runs between stores of any kind and verifies a store's contents. The store
// adapters' commands use it.
package runcopy
