// Package supportdesk tests a support desk that is served by package runner/service, as a
// user's program would be: tickets by webhook, customer threads, refunds with approval and
// compensation, signals, runs that call others, and two versions. Its processes are killed
// under load, and its effects are compared with a simulated bank that keeps a ledger.
package supportdesk
