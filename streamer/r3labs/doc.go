// Package r3labs publishes runs into a server of github.com/r3labs/sse/v2 that a
// program already has, beside the program's own streams.
//
//	server := sse.New()
//	server.AutoReplay = false
//	guard := r3labs.Guard(server, 10*time.Second)
//	pub, err := r3labs.New(server, r3labs.Options{Guard: guard})
//	st := state.New(state.WithPublisher(pub))
//	http.Handle("/sse", guard) // GET /sse?stream=<run ID>, or ?stream=runs for all
//
// Names and data of the events are those of package streamer, and so are the IDs
// of a run's events: <generation>-<seq>.
//
// # Publishing never waits
//
// Server.Publish waits when a client of the stream does not read. A [Publisher]
// has a bounded queue for each stream instead, which a goroutine empties while
// there is something in it. What does not fit is lost, and an event "gap" in its
// place has the number of events. An event of more than 60 KB is cut to a
// preview, and its metadata say so: the client of r3labs/sse reconnects for ever
// when it gets more than 64 KB.
//
// # Serve the guard
//
// Serve [Guard] in place of the server. It ends the connection of a client that
// does not read, for whom all clients of the stream would wait; it takes the
// Last-Event-ID from requests, which the server answers 400 unless it is an
// integer, and browsers then never come back; and it knows who is connected, so
// that the streams of runs that ended can be removed: the server leaks a
// goroutine for each client that is connected to a stream when that is removed.
// Without a guard no stream is removed.
//
// # What it cannot do
//
// The server sends what happens while a client is connected. A client that comes
// late, or comes back, misses what was before; there is no resume, within a
// process or over a restart. There is no authorization for each run: a client
// that reaches the server may read every stream. There is no dashboard, and no
// heartbeat. [github.com/reprise-go/reprise/streamer.Handler] has all of that.
//
// New refuses a server with EncodeBase64, which makes events unreadable for
// everything but its own client, and a server with an EventTTL and without
// AutoReplay, which sends nothing. AutoReplay, which sse.New turns on, is refused
// unless [Options.AutoReplay] accepts it: such a server keeps every event for
// ever, replaces the IDs by numbers that begin at 0 in each process, and sends a
// client the event of its cursor once more.
package r3labs
