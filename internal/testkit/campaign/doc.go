// Package campaign attacks a store and a queue that several processes share. Workers execute tasks
// whose steps each add a line to an independent ledger, while random faults are caused in the
// workers and in their server. At the end, the records are compared with the ledger.
//
// A test passes [Work] to its workers, makes a [Site] for the client that starts runs, puts a
// [Proxy] between each worker and the server, and calls [Run] with the possible faults.
//
// Only tests may import this package.
package campaign
