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
//	                             processes may share, and open in this process
//	reprise.runs.limit           how many may be open
//	reprise.run.started          runs that were started, by program and version
//	reprise.run.ended            runs that were closed, by program, version and status
//	reprise.run.open.duration    how long they were open, in seconds
//	reprise.run.crashed          ends of the processes of runs
//	reprise.runner.troubles      what went wrong, see runner.EventTrouble
//	reprise.call.attempts        attempts of calls, by kind and name
//	reprise.call.retries         waits before another attempt, by kind, name and class of the error
//	reprise.call.exhausted       calls without an attempt, time or retry budget left, by kind, name and reason
//	reprise.call.duration        time of calls that have ended, with all attempts and waits, in seconds
//
// Spans are made of records when these are published, with the times that are in
// them. The contexts of handlers do not carry them: spans of handlers' own are in
// traces of their own. A run that goes on in another process, or after it was
// parked, has a trace for each time that it is open. Calls that are recalled have
// no span. The attributes of the last attempt of a call (core.Annotate) are those
// of its span, and the attributes of an attempt that is tried again those of the
// event "retrying": provider, model, response_id and finish under the names of the
// semantic conventions, such as gen_ai.response.id, and all others as
// reprise.attribute.KEY.
package otel
