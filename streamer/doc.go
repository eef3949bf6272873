// Package streamer shows runs in a browser while they happen: an [http.Handler]
// that sends their records as server-sent events and serves a dashboard page
// that reads them.
//
//	dash, err := streamer.New(nil, streamer.Options{})
//	st := state.New(state.WithPublisher(dash))
//	http.Handle("/runs/", http.StripPrefix("/runs", dash))
//
// A [Handler] is a publisher of any number of runs. It keeps the newest events in
// memory and reads older ones, and runs that are over, from a [Source]; package
// streamer/stored makes one from a store of runs. [Client] follows runs from
// another Go program, answers their questions, and starts them.
//
// # Paths
//
// Paths are relative to where the handler is mounted:
//
//	GET  /                              the dashboard
//	GET  /events                        the event stream
//	GET  /api/runs                      what the runs are at now, as JSON
//	GET  /api/runs/{run}                one run and its newest records
//	GET  /health                        counters
//	POST /api/runs/{run}/interrupt      with a Control and permission only
//	POST /api/runs/{run}/cancel         likewise
//	POST /api/runs/{run}/answer         likewise
//	GET  /api/programs                  what can be started, with a Starter and permission only
//	POST /api/runs                      starts a run, likewise
//	POST /api/runs/{run}/resume         has a run go on that was interrupted, likewise
//	GET  /api/runs/{run}/result         what a run has come to, with a Starter
//
// What is posted is JSON, and so is what comes back:
//
//	{"by": "ann", "message": "why"}                 to interrupt or cancel; both may be left out
//	{"question": "agent/refund?1", "value": true}   to answer, with "by" as above
//	{"program": "support", "input": {…}}            to start: a Start
//	{}                                              to resume; it may be left out
//
// It is read and checked as a whole before anything is done: one object of at most
// 1 MB, with known names and none of them twice. It must come within 30 seconds,
// unless the server has a ReadTimeout of its own.
//
// # Events
//
// An event's data is a record as JSON; see [record.Record.MarshalJSON] for the
// names. Its name is the record's status ("started", "failed", "retrying", …), so
// that addEventListener("retrying", …) works; for a run itself it is "run_started"
// and then "run_completed", "run_failed", "run_interrupted", "run_paused" or
// "run_cancelled".
//
// /events?run=ID streams one run from its first record on, and /events all
// runs from now on. Both go on after the cursor in the Last-Event-ID header,
// or in the query as after=ID: no event is missed and none comes twice. The
// query can pick events by type (tool_call, llm_call, …) and by status; what
// is not sent still moves the cursor, by an event "cursor" with an ID and
// nothing in it, at the next heartbeat.
//
// The ID of an event is a number, a hyphen and a number. In the stream of a run
// they are the generation and the number of the record, so that a cursor outlives
// the process. In the stream of all runs both belong to the handler. Two events
// report what is missing: "gap" has the number of events that are no longer kept,
// and "reset" follows a cursor that does not belong to this run or this handler, or
// to records that a crash has lost: a client that gets it starts again from /api. A
// third, "unreadable", ends a stream whose older records the source cannot read.
//
// # Deltas
//
// /events?run=ID&deltas=true also has events "delta", which show what the calls of
// the run are producing while they go on: a model's text, thoughts and tool calls,
// and how far a tool is. The run must be watched in the process that has the
// handler:
//
//	ctx = live.Watch(st.Context(ctx), dash.Delta)
//
// An event's data is a [Delta]. They have no ID and do not move the cursor. A
// client gets at most ten a second for each text, each with everything since the
// one before; a client that is slow, or connects late, gets the text so far in one
// piece, or its last 8 KB. "begin" says that an attempt of a call begins, and "end"
// that it has ended, or is no longer shown: what was produced is in the record of
// its outcome. A run shows 64 calls at a time.
//
// An event that comes after a quiet time is sent after a millisecond, with those
// that came in it. While events keep coming they are gathered for longer, so
// that many clients do not take the processor from the runs: for 5 ms, with more
// than 100 clients for 50 µs each, and for 100 ms at most.
//
// # Other clients
//
// A browser's EventSource follows a stream, and so does every client that keeps to
// the HTML standard. The data comes first in an event and the ID last, and only
// events end with an empty line, for clients that do not keep to the standard
// exactly. Two widely used clients need care:
//
//   - The client of r3labs/sse delivers events that were cut off. The example of
//     package streamer/r3labs has the loop around it that it needs.
//   - @microsoft/fetch-event-source moves its cursor when it has read the ID,
//     which may be a byte before the end of the event. Keep the ID of the last
//     message, and give it a fetch that sends that:
//     (url, init) => fetch(url, {...init, headers: {...init.headers, "last-event-id": last}}).
//
// # Vocabularies
//
// With [Options.Vocabularies], a client can have the events in the words of another
// system, as /events?vocabulary=NAME. A record becomes as many events as the
// vocabulary makes of it, or none; type and status still pick records. Resuming and
// the events of the stream itself, such as "gap" and "reset", are the same. An
// event "unsaid" stands for a record on which the vocabulary panicked.
//
// # Slow clients
//
// A client is served from what the handler keeps and has no queue of its own. A
// client that falls behind that, or reads almost nothing for a time, is
// disconnected, and resumes; it never slows down a run or another client.
//
// # Permission
//
// Without [Options.Authorize] the handler serves clients on this machine only. It
// is asked at each request; [Scope.TTL] ends event streams, so that it is asked
// again for those. Requests that a browser sends for a page of another site are
// refused, unless [Options.Origins] has its origin.
package streamer
