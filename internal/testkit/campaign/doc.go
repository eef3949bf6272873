// Package campaign attacks a store and a queue that several processes have. Workers run tasks
// whose steps each add a line to a ledger outside, while random things are done to them and to
// their server; in the end the records are compared with the ledger.
//
// A test gives [Work] to its workers, makes a [Site] for the client that starts runs, puts a
// [Proxy] between each worker and the server, and calls [Run] with what can go wrong.
//
// Only tests may import it.
package campaign
