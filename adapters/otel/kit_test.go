package otel_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/reprise-go/reprise/adapters/otel"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

type in struct {
	Text string `json:"text"`
}

// A kit is telemetry whose spans and metrics are kept in memory.
type kit struct {
	telemetry *otel.Telemetry
	provider  *sdk.TracerProvider
	reader    *metric.ManualReader
	spans     *tracetest.SpanRecorder
}

func newKit(t *testing.T, o otel.Options) *kit {
	k := &kit{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	k.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(k.spans))
	o.Meter, o.Tracer = metric.NewMeterProvider(metric.WithReader(k.reader)), k.provider
	var err error
	k.telemetry, err = otel.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { k.checkKeys(t) })
	return k
}

// serve serves a runner with the telemetry until the test ends.
func (k *kit) serve(t *testing.T, o runner.Options, register func(*runner.Runner)) *runner.Runner {
	r, err := runner.New(memstore.New(), k.telemetry.RunnerOptions(o))
	require.NoError(t, err)
	register(r)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { assert.NoError(t, r.Serve(ctx)) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return r
}

// span returns the ended span with the given name. There must be exactly one.
func (k *kit) span(t *testing.T, name string) sdk.ReadOnlySpan {
	t.Helper()
	var found []sdk.ReadOnlySpan
	for _, s := range k.spans.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, "%s in %v", name, k.names())
	return found[0]
}

func (k *kit) names() (names []string) {
	for _, s := range k.spans.Ended() {
		names = append(names, s.Name())
	}
	slices.Sort(names)
	return names
}

// metrics returns the values of the metrics by name and attributes. The value of a histogram is its
// sum.
func (k *kit) metrics(t *testing.T) map[string]float64 {
	found := make(map[string]float64)
	k.eachPoint(t, func(name string, attributes []string, value float64) {
		found[name+"{"+strings.Join(attributes, ",")+"}"] = value
	})
	return found
}

func (k *kit) eachPoint(t *testing.T, f func(name string, attributes []string, value float64)) {
	var all metricdata.ResourceMetrics
	require.NoError(t, k.reader.Collect(context.WithoutCancel(t.Context()), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					f(m.Name, texts(p.Attributes.ToSlice()), float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					f(m.Name, texts(p.Attributes.ToSlice()), float64(p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					f(m.Name, texts(p.Attributes.ToSlice()), p.Sum)
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					f(m.Name, texts(p.Attributes.ToSlice()), float64(p.Sum))
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
}

// A receiver is a collector that receives spans by OTLP over HTTP.
type receiver struct {
	url string

	mu    sync.Mutex
	spans []*wire.Span
}

func newReceiver(t *testing.T) *receiver {
	r := new(receiver)
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// process returns telemetry with its own exporter, like that of a separate process. shut exports
// the ended spans.
func (r *receiver) process(t *testing.T) (provider *sdk.TracerProvider, options []state.Option, shut func()) {
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(r.url))
	require.NoError(t, err)
	provider = sdk.NewTracerProvider(sdk.WithBatcher(exporter))
	telemetry, err := otel.New(otel.Options{Tracer: provider})
	require.NoError(t, err)
	return provider, telemetry.Run(), func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) }
}

// tree returns the received spans, each of them below its parent, with their links and with the
// attributes that f selects.
func (r *receiver) tree(f func(key string) bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	children, names := make(map[string][]*wire.Span), make(map[string]string)
	for _, s := range r.spans {
		children[string(s.ParentSpanId)] = append(children[string(s.ParentSpanId)], s)
		names[string(s.SpanId)] = s.Name
	}
	var b strings.Builder
	var write func(s *wire.Span, depth int)
	write = func(s *wire.Span, depth int) {
		fmt.Fprintf(&b, "\n%s%s", strings.Repeat("  ", depth), s.Name)
		for _, kv := range s.Attributes {
			if f(kv.Key) {
				fmt.Fprintf(&b, " %s=%s", kv.Key, value(kv.Value))
			}
		}
		for _, l := range s.Links {
			fmt.Fprintf(&b, " -> %s (%s)", cmp.Or(names[string(l.SpanId)], "?"), value(l.Attributes[0].Value))
		}
		if s.Status.GetCode() == wire.Status_STATUS_CODE_ERROR {
			b.WriteString(" ERROR")
		}
		below := children[string(s.SpanId)]
		slices.SortFunc(below, func(a, b *wire.Span) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) })
		for _, child := range below {
			write(child, depth+1)
		}
	}
	roots := children[""]
	slices.SortFunc(roots, func(a, b *wire.Span) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) })
	for _, s := range roots {
		write(s, 0)
	}
	return b.String()
}

func value(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	}
	return v.String()
}
