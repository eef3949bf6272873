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
//	GET  /api/runs                      the states of the runs, as JSON
//	GET  /api/questions                 the open questions of all runs
//	GET  /api/runs/{run}                one run and its newest records
//	GET  /api/runs/{run}/calls/{address}/input   the whole input of a call as JSON; likewise output, and error as text; at most 64 MB
//	GET  /health                        counters
//	POST /api/runs/{run}/interrupt      requires a Control and permission
//	POST /api/runs/{run}/cancel         requires a Control and permission
//	POST /api/runs/{run}/answer         requires a Control and permission
//	POST /api/runs/{run}/signal         requires a Control and permission
//	GET  /api/runs/{run}/values         the values that a run shows; requires a Starter
//	POST /api/threads/{thread}          sends a message to a thread; requires Threads and permission
//	GET  /api/threads/{thread}          the last turns of a thread; requires Threads
//	GET  /api/programs                  the programs that can be started, with the schemas of their inputs; requires a Starter and permission
//	GET  /api/history                   what all runs did in the last hour, by the minute; requires permission to see all runs
//	GET  /api/work                      who works: the queue, the workers with runs open, the programs and their schedules; requires permission to see all runs
//	GET  /api/runs/{run}/records        the records before the record with the number before, at most limit of them
//	GET  /api/runs/{run}/usage          what it consumed, by call, model and agent
//	POST /api/questions/answer          answers up to 1,000 questions of many runs with one value; requires permission
//	POST /api/runs                      starts a run; requires a Starter and permission
//	POST /api/runs/{run}/resume         continues an interrupted run; requires a Continuer and permission
//	POST /api/runs/{run}/retry          tries again what failed in a run; requires a Continuer and permission
//	POST /api/runs/{run}/fork           begins a new run from a call; requires a Forker and permission
//	POST /api/runs/resume               resumes the runs of a Selection; requires a Continuer and permission
//	POST /api/runs/retry                retries the runs of a Selection; requires a Continuer and permission
//	GET  /api/runs/{run}/result         the result of a run; requires a Starter
//
// The stream of a run, and that of all runs, have an event "deleted" for a run that was
// deleted, see [Handler.PublishDeletion]. If another run already has its ID, the event in the stream of
// all runs has created_at, and the stream of the run has an event "reset". The stream of all runs also
// has an event "stopping", which says who has asked a running run to stop, see
// [Handler.PublishStopping].
//
// The query of /api/runs and /api/questions selects runs by status (several, separated by
// commas), tag (may be repeated), program, version, pipeline, parent, class (of the last
// error), text, asking, since and until. It sorts them by sort (updated, start, end, duration,
// cost, tokens or retries) in the given order (asc or desc). limit is the maximum number of
// runs on a page; after is the field next of the previous page. The total and the counts of a
// list are those of all pages together. If the runs are in a directory, changes by other processes
// may be 2 seconds late.
//
// The bodies of requests and responses are JSON:
//
//	{"by": "ann", "message": "why"}                 to interrupt or cancel; both are optional
//	{"question": "agent/refund?1", "value": true}   to answer, with "by" as above
//	{"program": "support", "input": {…}}            to start: a Start
//	{}                                              to resume; the body may be empty
//
// The body of a request is read and checked as a whole before anything is done. It
// is one object of at most 1 MB, with known names, each at most once, and must
// arrive within 30 seconds, unless the server has a ReadTimeout of its own.
//
// # Events
//
// An event's data is a record as JSON; see [record.Record.MarshalJSON] for the
// names. Its name is the record's status ("started", "failed", "retrying", …), so
// that addEventListener("retrying", …) works; for a run itself it is "run_started"
// and then "run_completed", "run_failed", "run_interrupted", "run_paused" or
// "run_cancelled".
//
// /events?run=ID streams one run from its first record, and /events streams all
// runs from now on. Both continue after the cursor in the Last-Event-ID header, or
// in the query as after=ID: no event is lost or sent twice. The query can select
// events by type (tool_call, llm_call, …) and by status. Events that are not
// selected still move the cursor: at the next heartbeat, an event "cursor" with an ID
// and no data is sent.
//
// The ID of an event is two numbers with a hyphen between them. In the stream of a run they are
// the generation and the number of the record, so that a cursor outlives the process. They are
// preceded by the creation time of the run and a dot, so that another run with the same ID is not
// continued by mistake. In the stream of all runs both numbers belong to the handler. Two events
// report missing events: "gap" has the number of events that are no longer kept, and "reset" is
// sent if the cursor does not belong to this run or this handler, or belongs to records that a
// crash has lost. A client that receives "reset" starts again from /api. A third event,
// "unreadable", ends a stream whose older records the source cannot read.
//
// # Deltas
//
// /events?run=ID&deltas=true also sends events "delta", which show what the calls of
// the run produce while they run: the text, thoughts and tool calls of a model, and
// the progress of a tool. The run must be watched in the process that has the
// handler:
//
//	ctx = live.Watch(st.Context(ctx), dash.PublishDelta)
//
// The data of such an event is a [Delta]. It has no ID and does not move the cursor. A
// client receives at most ten a second for each text, each with everything since the
// previous one. With more than 100 such clients, the interval is a millisecond for each
// client, at most a second. A client that is slow, or connects late, receives the text so
// far at once, or its last 8 KB. "begin" reports that an attempt of a call begins, and "end"
// that it has ended or is no longer shown: its output is in the record of its outcome. At
// most 64 calls of a run are shown at a time.
//
// A client of the stream of all runs can ask for the deltas of up to 100 runs with watch=ID,
// repeated for each run. With others=false it receives only the events of these runs. The
// page uses this to share one stream between all tabs of a browser.
//
// For a run that another process executes there are no deltas. With Options.Elsewhere,
// an event "elsewhere", whose data has a message, tells the client so. The records are
// sent as usual.
//
// The first event after a quiet period is sent a millisecond later, together with those that have
// arrived by then. While events keep arriving, they are gathered for longer, so that many clients
// do not take the processor from the runs: for 5 ms, or with more than 500 clients for 10 µs per
// client, at most 100 ms.
//
// # Other clients
//
// A request whose URL has an unknown parameter is refused. If Authorize reads a parameter of its
// own, such as a token, it must remove the parameter from the URL.
//
// The EventSource of a browser can follow a stream, and so can every client that
// conforms to the HTML standard. For clients that do not conform exactly, an event has
// its data first and its ID last, and only events end with an empty line. Two widely
// used clients need care:
//
//   - The client of r3labs/sse delivers events that were truncated. The example of
//     package streamer/r3labs has the loop that this client needs.
//   - @microsoft/fetch-event-source moves its cursor when it has read the ID,
//     which may be a byte before the end of the event. Keep the ID of the last
//     message, and pass it a fetch that sends this ID:
//     (url, init) => fetch(url, {...init, headers: {...init.headers, "last-event-id": last}}).
//
// # Vocabularies
//
// With [Options.Vocabularies], a client can request the events in the terms of another
// system, as /events?vocabulary=NAME. A vocabulary turns a record into any number of
// events, or none; type and status still select records. Resuming, and the events of
// the stream itself such as "gap" and "reset", are the same. An event "unsaid"
// replaces a record on which the vocabulary panicked.
//
// # Slow clients
//
// Clients read from the events that the handler keeps and have no queues of their own.
// A client that falls behind these events, or reads almost nothing for a while, is
// disconnected and can resume. It never slows down a run or another client.
//
// # Permission
//
// Without [Options.Authorize], the handler serves only clients on this machine.
// Authorize is called for each request; [Access.TTL] ends event streams, so that it is
// called again for these. Requests that a browser sends for a page of another site are
// refused, unless [Options.Origins] contains its origin.
package streamer
