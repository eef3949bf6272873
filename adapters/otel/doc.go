// Package otel exports the activity of runs and runners to OpenTelemetry, following the semantic
// conventions for generative AI: spans of runs, calls and attempts, and metrics. It uses version
// 1.41.0 of the conventions, the last release that contains those for generative AI. These are still
// in development; a later version will be adopted as a whole.
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
//	          HTTP POST        the span of an HTTP client that uses the context of the handler
//	      execute_tool NAME    a call of a tool
//	      step NAME, compensate NAME
//
// A call's span covers all its attempts and the waits between them; each wait is an event named
// reprise.retrying. The context of a handler contains the attempt's span, so spans from HTTP and SQL
// clients become children of that span. Recalled calls and groups have no spans; a group's calls are
// children of the attempt that makes the group.
//
// A run that is resumed, in any process, continues its trace: the span of the opening is a child of
// the first opening's span, and is linked to the previous opening's span. The sampling decision for
// the first opening applies to all openings. An opening's span is also linked to the span that
// started the run: the span in the context passed to runner.Start (see [Inject]) or state.Open, or
// the span of the run that called runner.Call. A call that is made in the context of another trace is
// linked to the span in that context. The attribute reprise.link distinguishes the links: it is
// "request", "previous generation" or, on a call, "caller".
//
// # Attributes
//
// Spans of model calls have gen_ai.operation.name, gen_ai.provider.name ("_OTHER" if the model does
// not name its provider), gen_ai.request.*, gen_ai.response.*, gen_ai.usage.*, server.address and
// server.port. The values come from the attributes of the call's last attempt (see core.Annotate),
// but the usage is the sum over all attempts in this opening. Spans of agents have gen_ai.agent.name,
// and spans of tools gen_ai.tool.name. Attributes of attempts that the conventions do not define, and
// all attributes on spans of attempts, are named reprise.attribute.KEY. The names of all other
// attributes outside the conventions also begin with "reprise.".
//
// Spans and metrics for failures have the attribute error.type, which is the error's class: timeout,
// connection, eof, network, too_early, rate_limit, server, condition, artifact, client, canceled,
// permanent, panic, invalid or breaker, or _OTHER if the error has no class. They also have
// http.response.status_code if the status code is known.
//
// Messages, arguments and results are exported only with Options.Content, as
// gen_ai.input.messages, gen_ai.output.messages, gen_ai.tool.definitions,
// gen_ai.tool.call.arguments and gen_ai.tool.call.result.
//
// # Metrics
//
//	gen_ai.client.token.usage                    tokens that calls of models used
//	gen_ai.client.operation.duration             time of calls of models, with all attempts, in seconds
//	gen_ai.client.operation.time_to_first_chunk  time to the first chunk of streamed answers, in seconds
//	reprise.runs                 runs by state: queued and parked in the queue, which
//	                             several processes may share, and open in this process
//	reprise.runs.limit           maximum number of open runs
//	reprise.run.started          runs that were started, by program and version
//	reprise.run.ended            runs that were closed, by program, version and status
//	reprise.run.open.duration    time that runs were open, in seconds
//	reprise.run.crashed          crashes of processes, counted once for each of their runs
//	reprise.runner.troubles      problems of the runner; see runner.NoticeTrouble
//	reprise.call.attempts        attempts of calls, by kind and name
//	reprise.call.retries         waits before another attempt, by kind, name and class of the error
//	reprise.call.exhausted       calls without an attempt, time or retry budget left, by kind, name and reason
//	reprise.call.duration        total time of ended calls, including waits, in seconds
//
// If a provider, processor or exporter panics when this package calls it, the run is not affected,
// and OpenTelemetry's error handler is called.
package otel
