// Package otel exports the activity of a runner to OpenTelemetry: metrics of its queue,
// its runs and their retries, and a span for each run and each call.
//
//	telemetry, err := otel.New(otel.Options{})
//	r, err := runner.New(store, runner.Options{
//		Observe: telemetry.Observe,
//		Run:     []state.Option{state.WithPublisher(telemetry)},
//	})
//	stop, err := telemetry.Watch(r)
//
// The metrics are
//
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
// Spans are created from published records, with the times in the records. The contexts
// of handlers do not carry spans: spans that handlers create are in separate traces. A
// run that continues in another process, or after it was parked, has one trace for each
// time that it is open. Recalled calls have no spans. The attributes of the last
// attempt of a call (core.Annotate) become attributes of its span; those of an attempt
// that is retried become attributes of the event "retrying". The attributes provider,
// model, response_id and finish use the names of the semantic conventions, such as
// gen_ai.response.id; all others are named reprise.attribute.KEY.
package otel
