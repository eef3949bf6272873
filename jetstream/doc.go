// Package jetstream keeps runs on NATS JetStream, for workers on many machines.
//
// Its [Store] is a snapshot.Store. Whoever opens a run holds a lease on it while
// its process gives signs of life. A process that is killed, stopped or cut off
// loses its runs after the lease: any other may open them then, and goes on with
// them where they were. The one that lost them can write nothing any more, for
// each message is appended only if the last one of the run is still that which
// its writer knows.
//
//	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
//	store, err := jetstream.Open(ctx, conn, jetstream.Options{Replicas: 3})
//	r, err := runner.New(store, runner.Options{})
//
// What is stored is as safe as the server makes it. A single server survives the
// loss of power only with sync_interval: always; clients cannot see whether it is
// set. A cluster with three replicas survives the loss of one server.
//
// Artifacts stay when the runs that name them are deleted, until [Store.GC] removes
// them.
package jetstream
