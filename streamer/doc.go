// Package streamer shows runs in a browser while they happen. It provides an [http.Handler] that
// sends the records of runs as server-sent events, and serves a dashboard page that reads these
// events.
//
//	dash, err := streamer.New(nil, streamer.Options{})
//	st := state.New(state.WithPublisher(dash))
//	http.Handle("/runs/", http.StripPrefix("/runs", dash))
//
// A [Handler] is a publisher for any number of runs. It keeps the newest events in memory. It reads
// older events, and runs that have ended, from a [Source]; package streamer/stored makes a Source
// from a store of runs. [Client] follows runs from another Go program, answers their questions, and
// starts them.
//
// # Paths
//
// Paths are relative to where the handler is mounted:
//
//	GET  /                              the dashboard
//	GET  /events                        the event stream
//	GET  /api/runs                      the states of the runs, as JSON
//	GET  /api/questions                 the open questions of all runs
//	GET  /api/runs/{run}                one run and its newest records
//	GET  /api/runs/{run}/calls/{address}/input   a call's whole input as JSON; likewise output, and error as text; at most 64 MB
//	GET  /health                        counters
//	POST /api/runs/{run}/interrupt      requires a Control and permission
//	POST /api/runs/{run}/cancel         requires a Control and permission
//	POST /api/runs/{run}/answer         requires a Control and permission
//	POST /api/runs/{run}/signal         requires a Control and permission
//	GET  /api/runs/{run}/values         the values that a run exposes; requires a Starter
//	POST /api/threads/{thread}          sends a message to a thread; requires Threads and permission
//	GET  /api/threads/{thread}          the last turns of a thread; requires Threads
//	GET  /api/programs                  the programs that can be started, with their input schemas; requires a Starter and permission
//	GET  /api/history                   what all runs did in the last hour, by the minute; requires permission to see all runs
//	GET  /api/work                      the queue, the workers that have runs open, the programs and their schedules; requires permission to see all runs
//	GET  /api/runs/{run}/records        the newest records before the record with the number before, at most limit of them
//	GET  /api/runs/{run}/usage          what the run consumed, by call, model and agent
//	POST /api/questions/answer          answers up to 1,000 questions of many runs with one value; requires permission
//	POST /api/runs                      starts a run; requires a Starter and permission
//	POST /api/runs/{run}/resume         continues an interrupted run; requires a Continuer and permission
//	POST /api/runs/{run}/retry          repeats the failed calls of a run; requires a Continuer and permission
//	POST /api/runs/{run}/fork           begins a new run from a call; requires a Forker and permission
//	POST /api/runs/resume               resumes the runs in a Selection; requires a Continuer and permission
//	POST /api/runs/retry                retries the runs in a Selection; requires a Continuer and permission
//	GET  /api/runs/{run}/result         the result of a run; requires a Starter
//
// When a run is deleted, its stream and the stream of all runs carry an event "deleted"; see
// [Handler.PublishDeletion]. If another run already has the same ID, the event in the stream of all
// runs contains created_at, and the run's own stream carries an event "reset". The stream of all
// runs also carries events "stopping", which report who asked a running run to stop; see
// [Handler.PublishStopping].
//
// The query of /api/runs and /api/questions selects runs by status (several, separated by commas),
// tag (may be repeated), program, version, pipeline, parent, class (of the last error), text,
// asking, since and until. The parameter sort (updated, start, end, duration, cost, tokens or
// retries) and the parameter order (asc or desc) determine the order of the runs. limit is the
// maximum number of runs on a page; after is the value of next in the previous page. The total and
// the counts cover all pages. If the runs are stored in a directory, changes by other processes may
// appear up to 2 seconds late.
//
// Request and response bodies are JSON:
//
//	{"by": "ann", "message": "why"}                 to interrupt or cancel; both are optional
//	{"question": "agent/refund?1", "value": true}   to answer, with "by" as above
//	{"program": "support", "input": {…}}            to start: a Start
//	{}                                              to resume; the body may be empty
//
// A request's body is read and checked as a whole before anything is done. It must be one object of
// at most 1 MB that contains only known names, each at most once, and must arrive within 30
// seconds, unless the server sets its own ReadTimeout.
//
// # Events
//
// An event's data is a record as JSON; see [record.Record.MarshalJSON] for the names of its fields.
// The event's name is the record's status ("started", "failed", "retrying", …), so that
// addEventListener("retrying", …) works. For the run itself, the name is "run_started" and then
// "run_completed", "run_failed", "run_interrupted", "run_paused" or "run_cancelled".
//
// /events?run=ID streams one run from its first record, and /events streams all runs from now on.
// Given a cursor, in the Last-Event-ID header or as after=ID in the query, both continue after it:
// no event is lost or sent twice. The query can select events by type (tool_call, llm_call, …) and
// by status. Events that are not selected still move the cursor: at the next heartbeat, an event
// "cursor" is sent, with an ID and the data {}.
//
// An event's ID consists of two numbers separated by a hyphen. In a run's stream, they are the
// record's generation and number, so that a cursor stays valid when the process ends. They are
// preceded by the run's creation time and a dot, so that a client does not continue another run
// with the same ID by mistake. In the stream of all runs, both numbers belong to the handler. Two
// events report missing events: "gap" contains the number of events that are no longer kept, and
// "reset" is sent if the cursor does not belong to this run or this handler, or belongs to records
// that were lost in a crash. A client that receives "reset" starts again from /api. A third event,
// "unreadable", ends a stream if the source cannot read the older records.
//
// # Deltas
//
// /events?run=ID&deltas=true also sends events "delta", which show what the run's calls produce
// while they run: a model's text, thoughts and tool calls, and a tool's progress. The run must be
// watched in the handler's process:
//
//	ctx = live.Watch(st.Context(ctx), dash.PublishDelta)
//
// The data of such an event is a [Delta]. The event has no ID and does not move the cursor. A
// client receives at most ten deltas a second for each text, each with everything since the
// previous one. With more than 100 such clients, the interval is a millisecond per client, but at
// most a second. A client that is slow, or connects late, receives the text so far (or its last 8
// KB) at once. "begin" reports that an attempt of a call begins, and "end" that the attempt has
// ended or is no longer shown. Its output is in the record of the call's outcome. At most 64 calls
// of a run are shown at a time.
//
// A client of the stream of all runs can ask for the deltas of up to 100 runs with watch=ID,
// repeated for each run. With others=false, it receives only the events of these runs. The page
// uses this to share one stream between all tabs of a browser.
//
// If a run is executed by another process, its deltas are not available. With Options.Elsewhere,
// the client is told so by an event "elsewhere", whose data contains a message. The records are
// sent as usual.
//
// The first event after a quiet period is sent after a millisecond, together with the events that
// have arrived by then. While events keep arriving, they are collected for longer, so that many
// clients do not use up the CPU time that the runs need: for 5 ms, or, with more than 500 clients,
// for 10 µs per client but at most 100 ms.
//
// # Other clients
//
// A request is refused if its URL contains an unknown parameter. If Authorize reads a parameter of
// its own, such as a token, it must remove the parameter from the URL.
//
// A browser's EventSource can follow a stream, and so can every client that conforms to the HTML
// standard. For clients that do not conform exactly, an event begins with its data and ends with
// its ID, and only events end with an empty line. Two widely used clients need care:
//
//   - The client of r3labs/sse delivers events that were truncated. The example in
//     package streamer/r3labs contains the loop that this client needs.
//   - @microsoft/fetch-event-source moves its cursor when it has read the ID,
//     which may be a byte before the end of the event. Keep the ID of the last
//     message yourself, and configure a fetch function that sends this ID:
//     (url, init) => fetch(url, {...init, headers: {...init.headers, "last-event-id": last}}).
//
// # Vocabularies
//
// With [Options.Vocabularies], a client can request the events in the terms of another system, as
// /events?vocabulary=NAME. A vocabulary turns a record into any number of events, or none; type and
// status still select records. Resuming works as usual, and the stream's own events, such as "gap"
// and "reset", are the same. If the vocabulary panics on a record, an event "unsaid" replaces that
// record.
//
// # Slow clients
//
// Clients read from the events that the handler keeps and have no queues of their own. A client
// that falls behind these events, or reads almost nothing for a while, is disconnected and can
// resume. A slow client never slows down a run or another client. A client that does not read any
// other kind of response is also disconnected; see [Options.WriteTimeout].
//
// # Permission
//
// Without [Options.Authorize], the handler serves only clients on this machine. Authorize is called
// for each request. An event stream ends after [Access.TTL], so that Authorize is called again when
// the client reconnects. Requests that a browser sends on behalf of another site's page are
// refused, unless [Options.Origins] contains that page's origin and the request only reads.
package streamer
