// Package r3labs publishes runs on a github.com/r3labs/sse/v2 server that a program already has,
// alongside the program's own streams.
//
//	server := sse.New()
//	server.AutoReplay = false
//	guard := r3labs.Guard(server, 10*time.Second)
//	pub, err := r3labs.New(server, r3labs.Options{Guard: guard})
//	st := state.New(state.WithPublisher(pub))
//	http.Handle("/sse", guard) // GET /sse?stream=<run ID>, or ?stream=runs for all
//
// The events have the same names and data as in package streamer. In a run's stream, their IDs are
// <generation>-<seq>.
//
// # Publishing never waits
//
// Server.Publish blocks if a client of the stream does not read. A [Publisher] therefore has a
// bounded queue for each stream, which is emptied by a goroutine. Events that do not fit into the
// queue are lost, and are replaced by an event "gap" that contains their number. If an event has
// more than 60 KB, a shortened event with "truncated" in its metadata is sent instead, because the
// client of r3labs/sse reconnects endlessly if it receives more than 64 KB.
//
// # Serve the guard
//
// Serve [Guard] instead of the server, for three reasons:
//
//   - It ends the connection of a client that does not read. Otherwise, all clients of the stream
//     would wait for this client.
//   - It removes a Last-Event-ID that is not an integer from requests. Otherwise, the server would
//     respond with 400, and browsers would never reconnect.
//   - It knows which clients are connected, so that the streams of ended runs can be removed. If a
//     stream is removed while clients are connected to it, the server leaks a goroutine for each
//     of them. Without a guard, no stream is removed.
//
// # What it cannot do
//
// The server sends only events that are published while a client is connected. A client that
// connects late or reconnects misses the events before that, and has no way to resume, neither
// within a process nor after a restart. There is no authorization for individual runs: a client
// that can reach the server can read every stream. There is no dashboard and no heartbeat.
// [github.com/reprise-go/reprise/streamer.Handler] has all of these.
//
// New refuses a server with EncodeBase64, because only the server's own client can read its events.
// It refuses a server with an EventTTL but without AutoReplay, because such a server sends nothing.
// New also refuses AutoReplay, which sse.New turns on, unless [Options.AutoReplay] is set: a server
// with AutoReplay keeps every event forever, replaces the IDs with numbers that begin at 0 in each
// process, and sends the event at a client's cursor again.
package r3labs
