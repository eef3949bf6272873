package otel

import (
	"cmp"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-go/reprise/record"
)

// An actor holds what all calls of an actor have in common. It is built only once, since building it
// costs more than a span.
type actor struct {
	span       string                  // name of the spans
	start      []trace.SpanStartOption // options with the attributes that are passed to samplers
	attributes metric.MeasurementOption
	completed  metric.MeasurementOption
}

type actorKey struct {
	kind record.Kind
	name string
}

// maxActors is the maximum number of actors in the cache. A limit is needed because the number of
// different names, such as names of steps, may be unbounded.
const maxActors = 1000

// An actorCache caches actors by kind and name.
type actorCache struct {
	mu   sync.RWMutex
	seen map[actorKey]*actor
}

func (a *actorCache) of(kind record.Kind, name string) *actor {
	key := actorKey{kind, name}
	a.mu.RLock()
	known := a.seen[key]
	a.mu.RUnlock()
	if known != nil {
		return known
	}
	made := newActor(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.seen) < maxActors {
		a.seen[key] = made
	}
	return made
}

func newActor(k actorKey) *actor {
	return &actor{
		span:       spanName(k.kind, k.name),
		start:      []trace.SpanStartOption{trace.WithSpanKind(spanKind(k.kind)), trace.WithAttributes(spanAttributes(k)...)},
		attributes: metric.WithAttributeSet(attribute.NewSet(k.attributes()...)),
		completed: metric.WithAttributeSet(attribute.NewSet(
			append(k.attributes(), statusKey.String(record.StatusCompleted.String()))...)),
	}
}

// attributes returns the attributes for the actor's metrics, followed by more.
func (k actorKey) attributes(more ...attribute.KeyValue) []attribute.KeyValue {
	return append(more, kindKey.String(k.kind.String()), nameKey.String(cmp.Or(k.name, "?")))
}

func spanKind(k record.Kind) trace.SpanKind {
	if k == record.KindLLM {
		return trace.SpanKindClient
	}
	return trace.SpanKindInternal
}

func spanName(k record.Kind, name string) string {
	switch k {
	case record.KindLLM:
		return "chat " + name
	case record.KindAgent:
		return "invoke_agent " + name
	case record.KindTool:
		return "execute_tool " + name
	case record.KindCompensation:
		return "compensate " + name
	}
	return k.String() + " " + name
}

// spanAttributes returns the attributes with which a call's span starts.
func spanAttributes(k actorKey) []attribute.KeyValue {
	switch k.kind {
	case record.KindLLM:
		return []attribute.KeyValue{semconv.GenAIOperationNameChat, semconv.GenAIRequestModel(k.name)}
	case record.KindAgent:
		return []attribute.KeyValue{semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(k.name)}
	case record.KindTool:
		return []attribute.KeyValue{semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(k.name), semconv.GenAIToolType("function")}
	}
	return []attribute.KeyValue{kindKey.String(k.kind.String()), nameKey.String(k.name)}
}

// attemptOptions holds the options for the spans of attempts, indexed by the attempt's number.
type attemptOptions [10][]trace.SpanStartOption

func newAttemptOptions() (a attemptOptions) {
	for n := range a {
		a[n] = []trace.SpanStartOption{trace.WithAttributes(attemptKey.Int(n))}
	}
	return a
}

func (a *attemptOptions) of(number int) []trace.SpanStartOption {
	if number >= 0 && number < len(a) {
		return a[number]
	}
	return []trace.SpanStartOption{trace.WithAttributes(attemptKey.Int(number))}
}
