package otel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/reprise-go/reprise/record"
)

// Keys for attributes that the semantic conventions do not define.
const (
	runIDKey        = attribute.Key("reprise.run.id")
	generationKey   = attribute.Key("reprise.run.generation")
	pipelineKey     = attribute.Key("reprise.run.pipeline")
	programKey      = attribute.Key("reprise.program")
	versionKey      = attribute.Key("reprise.version")
	stateKey        = attribute.Key("reprise.state")
	addressKey      = attribute.Key("reprise.address")
	kindKey         = attribute.Key("reprise.kind")
	nameKey         = attribute.Key("reprise.name")
	statusKey       = attribute.Key("reprise.status")
	reasonKey       = attribute.Key("reprise.reason")
	stageKey        = attribute.Key("reprise.stage")
	attemptKey      = attribute.Key("reprise.attempt")
	attemptsKey     = attribute.Key("reprise.attempts")
	delayKey        = attribute.Key("reprise.delay")
	cachedKey       = attribute.Key("reprise.cached")
	linkKey         = attribute.Key("reprise.link")
	inputTokensKey  = attribute.Key("reprise.usage.input_tokens")
	outputTokensKey = attribute.Key("reprise.usage.output_tokens")
	costKey         = attribute.Key("reprise.usage.cost")
	estimatedKey    = attribute.Key("reprise.usage.estimated")

	attributePrefix = "reprise.attribute." // prefix for the keys of attempts' attributes
)

// attributesOf returns the attributes of the attempt that the record ends, sorted by
// key.
func attributesOf(rec *record.Record) []attribute.KeyValue {
	if rec.Detail == nil || len(rec.Detail.Metadata) == 0 {
		return nil
	}
	attributes := make([]attribute.KeyValue, 0, len(rec.Detail.Metadata))
	for _, key := range slices.Sorted(maps.Keys(rec.Detail.Metadata)) {
		attributes = append(attributes, ownAttribute(key, rec.Detail.Metadata[key]))
	}
	return attributes
}

// utf8Of returns text as valid UTF-8. If a single text were invalid, the exporter could not send
// any span of its batch.
func utf8Of(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// ownAttribute returns an attempt's attribute under a key that this package defines.
func ownAttribute(key string, value any) attribute.KeyValue {
	key = attributePrefix + utf8Of(key)
	switch v := value.(type) {
	case bool:
		return attribute.Bool(key, v)
	case int64:
		return attribute.Int64(key, v)
	case float64:
		return attribute.Float64(key, v)
	}
	return attribute.String(key, utf8Of(fmt.Sprint(value)))
}

// modelAttributes returns the attributes of the model attempt that the record ends. Attributes that
// the conventions define have the conventions' keys.
func modelAttributes(rec *record.Record) []attribute.KeyValue {
	attributes := []attribute.KeyValue{semconv.GenAIProviderNameKey.String(provider(rec))}
	if rec.Detail == nil {
		return attributes
	}
	for _, key := range slices.Sorted(maps.Keys(rec.Detail.Metadata)) {
		value := rec.Detail.Metadata[key]
		switch kv, ok := conventional(key, value); {
		case key == "provider":
		case key == "first_token" && ok:
			attributes = append(attributes, kv, semconv.GenAIRequestStream(true))
		case ok:
			attributes = append(attributes, kv)
		default:
			attributes = append(attributes, ownAttribute(key, value))
		}
	}
	return attributes
}

// The attributes that the conventions define, by the names that models use for them in attempts.
var (
	textKeys = map[string]attribute.Key{
		"model": semconv.GenAIResponseModelKey, "response_id": semconv.GenAIResponseIDKey, "request_model": semconv.GenAIRequestModelKey,
		"output_type": semconv.GenAIOutputTypeKey, "server_address": semconv.ServerAddressKey,
	}
	integerKeys = map[string]attribute.Key{
		"server_port": semconv.ServerPortKey, "max_tokens": semconv.GenAIRequestMaxTokensKey, "seed": semconv.GenAIRequestSeedKey,
		"n": semconv.GenAIRequestChoiceCountKey,
	}
	floatKeys = map[string]attribute.Key{
		"temperature": semconv.GenAIRequestTemperatureKey, "top_p": semconv.GenAIRequestTopPKey, "top_k": semconv.GenAIRequestTopKKey,
		"frequency_penalty": semconv.GenAIRequestFrequencyPenaltyKey, "presence_penalty": semconv.GenAIRequestPresencePenaltyKey,
		"first_token": semconv.GenAIResponseTimeToFirstChunkKey,
	}
	listKeys = map[string]attribute.Key{"finish": semconv.GenAIResponseFinishReasonsKey, "stop": semconv.GenAIRequestStopSequencesKey}
)

// conventional converts an attempt's attribute to the form that the conventions define. ok is false
// if the conventions do not define the attribute or require another type.
func conventional(key string, value any) (kv attribute.KeyValue, ok bool) {
	switch v := value.(type) {
	case string:
		v = utf8Of(v)
		if to, ok := textKeys[key]; ok {
			return to.String(v), true
		}
		if to, ok := listKeys[key]; ok {
			list, ok := listOf(key, v)
			return to.StringSlice(list), ok
		}
	case int64:
		if to, ok := integerKeys[key]; ok {
			return to.Int64(v), true
		}
		if to, ok := floatKeys[key]; ok {
			return to.Float64(float64(v)), true
		}
	case float64:
		if to, ok := floatKeys[key]; ok {
			return to.Float64(v), true
		}
	}
	return kv, false
}

// listOf returns the value of a list attribute. The attribute stop is recorded as JSON.
func listOf(key, value string) (list []string, ok bool) {
	if key != "stop" {
		return []string{value}, true
	}
	return list, json.Unmarshal([]byte(value), &list) == nil
}

// text returns an attribute of the attempt that the record ends, or "" if the attribute is not set.
func text(rec *record.Record, key string) string {
	if rec.Detail == nil {
		return ""
	}
	value, _ := rec.Detail.Metadata[key].(string)
	return utf8Of(value)
}

func requestModel(rec *record.Record) string { return cmp.Or(text(rec, "request_model"), rec.Name) }

// provider returns the provider's name, which the conventions require.
func provider(rec *record.Record) string { return cmp.Or(text(rec, "provider"), "_OTHER") }

// usageOfModel returns the total usage of the attempts of a model call.
func usageOfModel(u record.Usage) []attribute.KeyValue {
	if u.IsZero() {
		return nil
	}
	attributes := []attribute.KeyValue{semconv.GenAIUsageInputTokens(u.InputTokens), semconv.GenAIUsageOutputTokens(u.OutputTokens)}
	for _, part := range [...]struct {
		tokens int
		kv     func(int) attribute.KeyValue
	}{
		{u.CachedInputTokens, semconv.GenAIUsageCacheReadInputTokens},
		{u.CacheWriteTokens, semconv.GenAIUsageCacheCreationInputTokens},
		{u.ReasoningTokens, semconv.GenAIUsageReasoningOutputTokens},
	} {
		if part.tokens > 0 {
			attributes = append(attributes, part.kv(part.tokens))
		}
	}
	return append(attributes, costOf(u)...)
}

// usageOfAttempt returns the usage of one attempt. The attributes have keys that this package
// defines, so that no backend adds them to the call's usage.
func usageOfAttempt(u record.Usage) []attribute.KeyValue {
	if u.IsZero() {
		return nil
	}
	return append([]attribute.KeyValue{inputTokensKey.Int(u.InputTokens), outputTokensKey.Int(u.OutputTokens)}, costOf(u)...)
}

func costOf(u record.Usage) (attributes []attribute.KeyValue) {
	if u.Cost != 0 {
		attributes = append(attributes, costKey.Float64(u.Cost))
	}
	if u.Estimated {
		attributes = append(attributes, estimatedKey.Bool(true))
	}
	return attributes
}
