// Package otel exports the activity of runs and runners to OpenTelemetry, after the
// semantic conventions for generative AI: spans of runs, calls and attempts, and metrics.
// The conventions are those of version 1.41.0, the last release that has them; they are in
// development, and later versions will be adopted as a whole.
//
//	telemetry, err := otel.New(otel.Options{})
//	r, err := runner.New(store, telemetry.RunnerOptions(runner.Options{}))
//	stop, err := telemetry.Watch(r)
//
// Without a runner:
//
//	st, err := state.Open(ctx, store, id, telemetry.Run()...)
//
// # Spans
//
//	run PROGRAM                an opening of a run
//	  invoke_agent NAME        a call of an agent
//	    attempt                an attempt of it
//	      chat MODEL           a call of a model, of kind client
//	        attempt
//	          HTTP POST        what the HTTP client makes of the context of the handler
//	      execute_tool NAME    a call of a tool
//	      step NAME, compensate NAME
//
// A span of a call covers all its attempts and the waits between them; a wait is the event
// reprise.retrying. The span of an attempt is in the context of its handler, so that spans
// of HTTP and SQL clients are below it. Calls that are recalled have no spans, and neither
// have groups: their calls are below the attempt that makes the group.
//
// A run that continues, in whatever process, continues its trace: its span is a child of
// the first opening's, and linked to that of the opening before. The sampling decision of
// the first opening holds. Spans of openings are linked to the request that started the
// run, which is the span in the context of runner.Start (see [Inject]), state.Open, or of
// the run that calls this one (runner.Call). The attribute reprise.link says which link is
// which: "request", "previous generation" or "caller".
//
// # Attributes
//
// Spans of models have gen_ai.operation.name, gen_ai.provider.name ("_OTHER" if the model
// does not say it), gen_ai.request.*, gen_ai.response.*, gen_ai.usage.*, server.address and
// server.port, from the attributes of their last attempt (see core.Annotate); usage is that
// of all attempts in this opening. Agents have gen_ai.agent.name, and tools
// gen_ai.tool.name. Attributes of attempts without a name in the conventions, and all on
// spans of attempts, are named reprise.attribute.KEY. All other attributes that are not
// in the conventions begin with reprise, too.
//
// What failed has error.type, the class of the error: timeout, connection, eof, network,
// too_early, rate_limit, server, condition, artifact, client, canceled, permanent, panic,
// invalid or breaker, and _OTHER if it has none; and http.response.status_code if it is
// known.
//
// Messages, arguments and results are exported only with Options.Content, as
// gen_ai.input.messages, gen_ai.output.messages, gen_ai.tool.definitions,
// gen_ai.tool.call.arguments and gen_ai.tool.call.result.
//
// # Metrics
//
//	gen_ai.client.token.usage                    tokens that calls of models used
//	gen_ai.client.operation.duration             time of calls of models, with all attempts, in seconds
//	gen_ai.client.operation.time_to_first_chunk  of answers that are streamed to somebody, in seconds
//	reprise.runs                 runs by state: queued and parked in the queue, which
//	                             several processes may share, and open in this process
//	reprise.runs.limit           maximum number of open runs
//	reprise.run.started          runs that were started, by program and version
//	reprise.run.ended            runs that were closed, by program, version and status
//	reprise.run.open.duration    time that runs were open, in seconds
//	reprise.run.crashed          crashes of processes, counted once for each of their runs
//	reprise.runner.troubles      problems of the runner; see runner.EventTrouble
//	reprise.call.attempts        attempts of calls, by kind and name
//	reprise.call.retries         waits before another attempt, by kind, name and class of the error
//	reprise.call.exhausted       calls without an attempt, time or retry budget left, by kind, name and reason
//	reprise.call.duration        total time of ended calls, including waits, in seconds
//
// A provider, processor or exporter that panics in a call of this package changes nothing
// in the run: the error handler of OpenTelemetry is told.
package otel
