// Package jetstream keeps runs on NATS JetStream, for workers on many machines.
//
// Its [Store] is a snapshot.Store. A process that opens a run holds a lease on it, and renews the
// lease as long as it lives. A process that is killed, stopped or cut off loses its runs when the
// lease expires: then another process may open them and continue them. The process that lost a run
// can no longer write to it: a message is appended only if the last message of the run is still the
// one that its writer knows.
//
//	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
//	store, err := jetstream.Open(ctx, conn, jetstream.Options{Replicas: 3})
//	defer store.Close()
//	queue, err := jetstream.OpenQueue(ctx, store)
//	r, err := runner.New(store, runner.Options{Queue: queue})
//
// The [Queue] hands each run to one of the runners. To run this as a service with HTTP and a
// dashboard, give the store and the queue to runner/service.
//
// Stored data are as safe as the server makes them. A single server survives the loss of power only
// with sync_interval: always; clients cannot see whether it is set. A cluster with three replicas
// survives the loss of one server.
//
// Artifacts remain when the runs that name them are deleted, until [Store.GC] removes them.
package jetstream
