package otel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
)

// metrics holds the instruments.
type metrics struct {
	meter metric.Meter

	started, ended, crashed, troubles, attempts, retries, exhausted metric.Int64Counter

	openDuration, callDuration metric.Float64Histogram

	tokens     genaiconv.ClientTokenUsage
	duration   genaiconv.ClientOperationDuration
	firstChunk genaiconv.ClientOperationTimeToFirstChunk
}

// These are the bucket boundaries of histograms. Those for models come from the conventions. Those
// for calls and runs range from a millisecond to a day.
var (
	tokenBuckets = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	modelBuckets = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	chunkBuckets = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	longBuckets  = []float64{0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600}
)

func newMetrics(meter metric.Meter) (*metrics, error) {
	m := &metrics{meter: meter}
	var err error
	for _, c := range []struct {
		counter                 *metric.Int64Counter
		name, unit, description string
	}{
		{&m.started, "reprise.run.started", "{run}", "Runs started"},
		{&m.ended, "reprise.run.ended", "{run}", "Runs closed, by status"},
		{&m.crashed, "reprise.run.crashed", "{run}", "Crashes of processes, counted for each of their runs"},
		{&m.troubles, "reprise.runner.troubles", "{trouble}", "Problems of a runner"},
		{&m.attempts, "reprise.call.attempts", "{attempt}", "Attempts of calls"},
		{&m.retries, "reprise.call.retries", "{retry}", "Waits before another attempt"},
		{&m.exhausted, "reprise.call.exhausted", "{call}", "Calls that failed because no attempt, time or retry budget was left"},
	} {
		if *c.counter, err = meter.Int64Counter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.description)); err != nil {
			return nil, fmt.Errorf("otel: %s: %w", c.name, err)
		}
	}
	for _, h := range []struct {
		histogram         *metric.Float64Histogram
		name, description string
	}{
		{&m.openDuration, "reprise.run.open.duration", "How long runs were open"},
		{&m.callDuration, "reprise.call.duration", "Time of calls, with all attempts and waits"},
	} {
		*h.histogram, err = meter.Float64Histogram(h.name, metric.WithUnit("s"), metric.WithDescription(h.description), metric.WithExplicitBucketBoundaries(longBuckets...))
		if err != nil {
			return nil, fmt.Errorf("otel: %s: %w", h.name, err)
		}
	}
	if m.tokens, err = genaiconv.NewClientTokenUsage(meter, metric.WithExplicitBucketBoundaries(tokenBuckets...)); err != nil {
		return nil, fmt.Errorf("otel: %s: %w", m.tokens.Name(), err)
	}
	if m.duration, err = genaiconv.NewClientOperationDuration(meter, metric.WithExplicitBucketBoundaries(modelBuckets...)); err != nil {
		return nil, fmt.Errorf("otel: %s: %w", m.duration.Name(), err)
	}
	if m.firstChunk, err = genaiconv.NewClientOperationTimeToFirstChunk(meter, metric.WithExplicitBucketBoundaries(chunkBuckets...)); err != nil {
		return nil, fmt.Errorf("otel: %s: %w", m.firstChunk.Name(), err)
	}
	return m, nil
}

// Watch exports the state of the runner's queue whenever metrics are collected, until stop is called.
func (t *Telemetry) Watch(r *runner.Runner) (stop func() error, err error) {
	meter := t.metrics.meter
	runs, err := meter.Int64ObservableGauge("reprise.runs", metric.WithUnit("{run}"), metric.WithDescription("Runs that wait or are open"))
	if err != nil {
		return nil, fmt.Errorf("otel: reprise.runs: %w", err)
	}
	limit, err := meter.Int64ObservableGauge("reprise.runs.limit", metric.WithUnit("{run}"), metric.WithDescription("Maximum number of open runs"))
	if err != nil {
		return nil, fmt.Errorf("otel: reprise.runs.limit: %w", err)
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := r.Stats()
		for name, n := range map[string]int{"queued": s.Queued, "parked": s.Parked, "open": s.Open} {
			o.ObserveInt64(runs, int64(n), metric.WithAttributes(stateKey.String(name)))
		}
		o.ObserveInt64(limit, int64(s.Limit))
		return nil
	}, runs, limit)
	if err != nil {
		return nil, fmt.Errorf("otel: %w", err)
	}
	return registration.Unregister, nil
}

// observe counts a notice from a runner.
func (t *Telemetry) observe(e runner.Notice) {
	defer recoverPanic()
	ctx, m := context.Background(), t.metrics
	program := []attribute.KeyValue{programKey.String(e.Program), versionKey.String(e.Version)}
	switch e.Type {
	case runner.NoticeStarted:
		m.started.Add(ctx, 1, metric.WithAttributes(program...))
	case runner.NoticeClosed:
		attributes := metric.WithAttributes(append(program, statusKey.String(string(e.Status)))...)
		m.ended.Add(ctx, 1, attributes)
		m.openDuration.Record(ctx, e.Took.Seconds(), attributes)
	case runner.NoticeCrashed:
		m.crashed.Add(ctx, 1, metric.WithAttributes(program...))
	case runner.NoticeTrouble:
		m.troubles.Add(ctx, 1, metric.WithAttributes(program...))
	}
}

// count counts a record of a call.
func (t *Telemetry) count(rec *record.Record) {
	defer recoverPanic()
	ctx, m := context.Background(), t.metrics
	key := actorKey{rec.Kind, rec.Name}
	switch {
	case !rec.Kind.IsCall():
	case rec.Status == record.StatusStarted:
		m.attempts.Add(ctx, 1, t.actors.of(rec.Kind, rec.Name).attributes)
	case rec.Status == record.StatusRetrying:
		m.retries.Add(ctx, 1, metric.WithAttributes(key.attributes(errorType(rec.Class))...))
	case rec.Status == record.StatusCompleted:
		m.callDuration.Record(ctx, rec.Elapsed.Seconds(), t.actors.of(rec.Kind, rec.Name).completed)
	case rec.IsOutcome():
		m.callDuration.Record(ctx, rec.Elapsed.Seconds(), metric.WithAttributes(key.attributes(statusKey.String(rec.Status.String()))...))
		if rec.Reason.IsExhaustion() {
			m.exhausted.Add(ctx, 1, metric.WithAttributes(key.attributes(reasonKey.String(rec.Reason.String()))...))
		}
	}
}

// countModel records the metrics of a model call that has ended or stopped: the usage of its
// attempts in this process, and its duration.
func (m *metrics) countModel(rec *record.Record, used record.Usage) {
	ctx := context.Background()
	from := genaiconv.ProviderNameAttr(provider(rec))
	attributes := []attribute.KeyValue{semconv.GenAIRequestModel(requestModel(rec))}
	if rec.Detail != nil {
		for _, key := range [...]string{"model", "server_address", "server_port"} {
			if kv, ok := conventional(key, rec.Detail.Metadata[key]); ok {
				attributes = append(attributes, kv)
			}
		}
	}
	if used.InputTokens > 0 || used.OutputTokens > 0 {
		m.tokens.Record(ctx, int64(used.InputTokens), genaiconv.OperationNameChat, from, genaiconv.TokenTypeInput, attributes...)
		m.tokens.Record(ctx, int64(used.OutputTokens), genaiconv.OperationNameChat, from, genaiconv.TokenTypeOutput, attributes...)
	}
	if !rec.IsOutcome() {
		return
	}
	if rec.Detail != nil {
		if first, ok := rec.Detail.Metadata["first_token"].(float64); ok {
			m.firstChunk.Record(ctx, first, genaiconv.OperationNameChat, from, attributes...)
		}
	}
	if rec.Status == record.StatusFailed {
		attributes = append(attributes, errorType(rec.Class))
	}
	m.duration.Record(ctx, rec.Elapsed.Seconds(), genaiconv.OperationNameChat, from, attributes...)
}
