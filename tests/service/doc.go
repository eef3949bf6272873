// Package service repeatedly kills a service that executes many runs, and compares the runs with an
// independent ledger.
package service
