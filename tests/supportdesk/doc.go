// Package supportdesk tests a support desk that is served by package runner/service, as a user's
// program would be. It has tickets that arrive by webhook, customer threads, refunds with approval
// and compensation, signals, runs that call other runs, and two versions. Its processes are killed
// under load, and its effects are compared with the ledger of a simulated bank.
package supportdesk
