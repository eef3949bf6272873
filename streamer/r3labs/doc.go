// Package r3labs publishes runs on a github.com/r3labs/sse/v2 server that a program already
// has, next to the streams of the program.
//
//	server := sse.New()
//	server.AutoReplay = false
//	guard := r3labs.Guard(server, 10*time.Second)
//	pub, err := r3labs.New(server, r3labs.Options{Guard: guard})
//	st := state.New(state.WithPublisher(pub))
//	http.Handle("/sse", guard) // GET /sse?stream=<run ID>, or ?stream=runs for all
//
// The events have the same names and data as in package streamer, and the events of a run
// have the same IDs: <generation>-<seq>.
//
// # Publishing never waits
//
// Server.Publish blocks if a client of the stream does not read. A [Publisher] therefore
// has a bounded queue for each stream, which a goroutine empties. Events that do not fit
// are lost, and an event "gap" in their place has their number. An event of more than 60 KB
// is replaced by a preview, and its metadata say so: the client of r3labs/sse reconnects endlessly
// when it receives more than 64 KB.
//
// # Serve the guard
//
// Serve [Guard] instead of the server, for three reasons. It ends the connection of a client that
// does not read, because all clients of the stream would wait for it. It removes the Last-Event-ID
// from requests: unless it is an integer, the server responds with 400, and browsers then never
// reconnect. And it knows which clients are connected, so that the streams of runs that have ended
// can be removed: the server leaks a goroutine for each client that is connected to a stream when
// the stream is removed. Without a guard, no stream is removed.
//
// # What it cannot do
//
// The server sends only events that are published while a client is connected. A client
// that connects late, or reconnects, misses earlier events; it can resume neither
// within a process nor after a restart. There is no authorization for single runs: a client
// that reaches the server can read every stream. There is no dashboard, and no heartbeat.
// [github.com/reprise-go/reprise/streamer.Handler] has all of these.
//
// New refuses a server with EncodeBase64, whose events only its own client can read, and a
// server with an EventTTL but without AutoReplay, which sends nothing. It refuses
// AutoReplay, which sse.New turns on, unless [Options.AutoReplay] accepts it: such a server
// keeps every event forever, replaces the IDs by numbers that begin at 0 in each process,
// and sends the event of a client's cursor again.
package r3labs
