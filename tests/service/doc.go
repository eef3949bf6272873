// Package service kills a service of many runs again and again, and compares what
// its runs say with a ledger outside.
package service
