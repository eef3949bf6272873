// Package service repeatedly kills a service with many runs, and compares the
// runs with an independent ledger.
package service
