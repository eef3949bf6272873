// Package jetstream keeps runs on NATS JetStream, for workers on many machines.
//
// Its [Store] is a snapshot.Store. A process that opens a run holds a lease on the run, and renews
// the lease for as long as the process lives. A process that is killed, stopped or cut off loses
// its runs when the lease expires. Another process may then open and continue them. The process
// that lost a run can no longer write to it, because a message is appended only if the run's last
// message is still the one that the writer knows.
//
//	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort())
//	store, err := jetstream.Open(ctx, conn, jetstream.Options{Replicas: 3})
//	defer store.Close()
//	queue, err := jetstream.OpenQueue(ctx, store)
//	r, err := runner.New(store, runner.Options{Queue: queue})
//
// The [Queue] hands each run to one of the runners. For a service with HTTP and a dashboard, pass
// the store and the queue to runner/service.
//
// Stored data is as safe as the server makes it. On a single server, data survives a power failure
// only with sync_interval: always; clients cannot check this setting. With three replicas in a
// cluster, data survives the loss of one server.
//
// When runs are deleted, the artifacts that they name remain until [Store.GC] removes them.
package jetstream
