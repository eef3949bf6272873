// Package supportdesk tests a support desk that is served by package runner/service, as a
// program of one's own is: tickets by webhook, threads of customers, refunds with approval
// and compensation, signals, runs that call others, and two versions. Its processes are
// killed under load, and compared with a bank outside that keeps a ledger.
package supportdesk
