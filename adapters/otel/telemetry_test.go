package otel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/adapters/otel"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestRunsCallsAndRetriesAreCountedAndTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, otel.Options{})
		flaky := decorators.Tool("flaky", "", func(ctx context.Context, in in) (string, error) {
			if core.ScopeOf(ctx).Attempt() == 0 {
				return "", core.Retryable(errors.New("busy"))
			}
			return in.Text, nil
		}, actors.WithRetry(core.RetryConfig{InitialDelay: 3 * time.Second, Jitter: core.NoJitter}))
		down := decorators.Tool("down", "", func(context.Context, in) (string, error) { return "", core.Retryable(errors.New("down")) },
			actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}))
		broken := decorators.Tool("broken", "", func(context.Context, in) (string, error) { return "", errors.New("out of ink") })
		r := k.serve(t, runner.Options{}, func(r *runner.Runner) {
			runner.Register(r, decorators.Agent("agent", "", func(ctx context.Context, in in) (string, error) {
				if _, err := flaky.Call(ctx, in); err != nil {
					return "", err
				}
				_, _ = down.Call(ctx, in)
				return broken.Call(ctx, in)
			}))
		})
		stop, err := k.telemetry.Watch(r)
		require.NoError(t, err)
		begin := time.Now()
		_, err = r.Start(t.Context(), "agent", "a", in{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		synctest.Wait()

		got := k.metrics(t)
		for name, want := range map[string]float64{
			"reprise.run.started{reprise.program=agent,reprise.version=1}":                              1,
			"reprise.run.ended{reprise.program=agent,reprise.status=failed,reprise.version=1}":          1,
			"reprise.run.open.duration{reprise.program=agent,reprise.status=failed,reprise.version=1}":  3,
			"reprise.call.attempts{reprise.kind=tool_call,reprise.name=flaky}":                          2,
			"reprise.call.attempts{reprise.kind=agent_call,reprise.name=agent}":                         1,
			"reprise.call.retries{error.type=_OTHER,reprise.kind=tool_call,reprise.name=flaky}":         1,
			"reprise.call.attempts{reprise.kind=tool_call,reprise.name=down}":                           3,
			"reprise.call.retries{error.type=_OTHER,reprise.kind=tool_call,reprise.name=down}":          2,
			"reprise.call.exhausted{reprise.kind=tool_call,reprise.name=down,reprise.reason=exhausted}": 1,
			"reprise.call.duration{reprise.kind=tool_call,reprise.name=flaky,reprise.status=completed}": 3,
			"reprise.call.duration{reprise.kind=agent_call,reprise.name=agent,reprise.status=failed}":   3,
			"reprise.runs{reprise.state=open}":                                                          0, "reprise.runs{reprise.state=queued}": 0, "reprise.runs{reprise.state=parked}": 0, "reprise.runs.limit{}": 100,
		} {
			number, ok := got[name]
			assert.True(t, ok, "%s is not in %v", name, got)
			assert.InDelta(t, want, number, 0, name)
		}
		for name := range got {
			assert.False(t, strings.HasPrefix(name, "reprise.call.exhausted{") && !strings.Contains(name, "=down,"), "%s: there was no retry", name)
		}

		flakySpan := k.span(t, "execute_tool flaky")
		assert.True(t, begin.Equal(flakySpan.StartTime()))
		assert.True(t, begin.Add(3*time.Second).Equal(flakySpan.EndTime()), "including the wait")
		assert.Equal(t, codes.Unset, flakySpan.Status().Code)
		require.Len(t, flakySpan.Events(), 1)
		assert.Equal(t, "reprise.retrying", flakySpan.Events()[0].Name)
		assert.Equal(t, []string{"reprise.attempt=2", "reprise.delay=3", "error.type=_OTHER"}, texts(flakySpan.Events()[0].Attributes))
		assert.Equal(t, codes.Error, k.span(t, "execute_tool broken").Status().Code)
		run := k.span(t, "run agent")
		assert.Contains(t, run.Status().Description, "out of ink")
		assert.Equal(t, []string{
			"reprise.run.id=a", "reprise.run.generation=1", "reprise.program=agent", "reprise.version=1", "reprise.status=failed", "error.type=_OTHER",
		}, texts(run.Attributes()))
		assert.Len(t, k.spans.Ended(), len(k.spans.Started()), "no span is left open")
		require.NoError(t, stop())
		assert.NotContains(t, k.metrics(t), "reprise.runs{reprise.state=open}")
	})
}

func TestHistogramsHaveBucketsThatFitSecondsAndTokens(t *testing.T) {
	k := newKit(t, otel.Options{})
	st := state.New(k.telemetry.Run()...)
	model := decorators.LLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		core.Annotate(ctx, "first_token", time.Second)
		return actors.Response{Message: actors.Assistant("fine"), Usage: core.Usage{InputTokens: 1000}}, nil
	})
	_, err := model.Call(st.Context(t.Context()), actors.Request{Messages: []actors.Message{actors.User("?")}})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	var all metricdata.ResourceMetrics
	require.NoError(t, k.reader.Collect(t.Context(), &all))
	bounds := make(map[string][]float64)
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			bounds[m.Name] = data.DataPoints[0].Bounds
		case metricdata.Histogram[int64]:
			bounds[m.Name] = data.DataPoints[0].Bounds
		}
	}
	for name, edges := range map[string][2]float64{
		"reprise.call.duration": {0.001, 86400}, "gen_ai.client.operation.duration": {0.01, 81.92},
		"gen_ai.client.operation.time_to_first_chunk": {0.001, 10}, "gen_ai.client.token.usage": {1, 67108864},
	} {
		require.NotEmpty(t, bounds[name], name)
		got := bounds[name]
		assert.Equal(t, fmt.Sprint(edges), fmt.Sprint([2]float64{got[0], got[len(got)-1]}), name)
	}
}

func TestParkedRunContinuesInItsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, otel.Options{})
		nap := decorators.Tool("before", "", func(_ context.Context, in in) (string, error) { return in.Text, nil })
		r := k.serve(t, runner.Options{}, func(r *runner.Runner) {
			runner.Register(r, decorators.Agent("nap", "", func(ctx context.Context, in in) (string, error) {
				if _, err := nap.Call(ctx, in); err != nil {
					return "", err
				}
				if err := core.Sleep(ctx, time.Hour); err != nil {
					return "", err
				}
				return in.Text, core.Sleep(ctx, time.Hour)
			}))
		})
		ctx, request := k.provider.Tracer("server").Start(t.Context(), "POST /runs")
		_, err := r.Start(ctx, "nap", "a", in{"x"}, runner.StartOptions{})
		request.End()
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, []string{
			"POST /runs", "attempt", "attempt", "attempt", "attempt", "execute_tool before", "invoke_agent nap", "invoke_agent nap", "invoke_agent nap",
			"run nap", "run nap", "run nap",
		}, k.names(), "recalled calls have no span")
		var runs []sdk.ReadOnlySpan
		for _, s := range k.spans.Ended() {
			if s.Name() == "run nap" {
				runs = append(runs, s)
			}
			assert.Equal(t, s.Name() == "POST /runs", s.SpanContext().TraceID() == request.SpanContext().TraceID(), "the request has its own trace")
		}
		require.Len(t, runs, 3)
		for i, s := range runs {
			assert.Equal(t, runs[0].SpanContext().TraceID(), s.SpanContext().TraceID())
			assert.Equal(t, request.SpanContext().SpanID(), s.Links()[0].SpanContext.SpanID())
			assert.Equal(t, "request", s.Links()[0].Attributes[0].Value.AsString())
			if i == 0 {
				assert.False(t, s.Parent().IsValid())
				assert.Len(t, s.Links(), 1)
				continue
			}
			assert.Equal(t, runs[0].SpanContext().SpanID(), s.Parent().SpanID())
			require.Len(t, s.Links(), 2)
			assert.Equal(t, runs[i-1].SpanContext().SpanID(), s.Links()[1].SpanContext.SpanID())
			assert.Equal(t, "previous generation", s.Links()[1].Attributes[0].Value.AsString())
		}
		assert.Len(t, k.spans.Ended(), len(k.spans.Started()))
	})
}

func TestRunThatAnotherOneCallsIsLinkedToTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, otel.Options{})
		r := k.serve(t, runner.Options{}, func(r *runner.Runner) {
			runner.Register(r, decorators.Agent("child", "", func(_ context.Context, in in) (string, error) { return in.Text, nil }))
			runner.Register(r, decorators.Agent("parent", "", func(ctx context.Context, in in) (string, error) { return runner.Call[string](ctx, "child", in) }))
		})
		_, err := r.Start(t.Context(), "parent", "a", in{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		synctest.Wait()
		child := k.span(t, "run child")
		require.NotEmpty(t, child.Links())
		step := k.span(t, "step start child")
		assert.Equal(t, step.SpanContext().TraceID(), child.Links()[0].SpanContext.TraceID())
	})
}

func TestModelIsTracedByTheConventions(t *testing.T) {
	srv := openaitest.New(t,
		openaitest.Failure(503, "overloaded"),
		openaitest.Text("Fine.").WithUsage(11, 5))
	llm := openai.Model{
		Name: "gpt-4o-mini", BaseURL: srv.URL(), APIKey: "k",
		Options: actors.ModelOptions{Temperature: new(0.2), MaxTokens: 100, Stop: []string{"."}, Seed: new(int64(7)), Effort: "low"},
	}.LLM(actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	k := newKit(t, otel.Options{})
	st := state.New(k.telemetry.Run()...)
	_, err := llm.Call(st.Context(t.Context()), actors.Request{Messages: []actors.Message{actors.User("secret question")}})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	span := k.span(t, "chat gpt-4o-mini")
	assert.Equal(t, trace.SpanKindClient, span.SpanKind())
	attributes := attribute.NewSet(span.Attributes()...)
	for _, want := range []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "127.0.0.1"),
		attribute.String("server.address", "127.0.0.1"), attribute.String("gen_ai.request.model", "gpt-4o-mini"),
		attribute.Float64("gen_ai.request.temperature", 0.2), attribute.Int("gen_ai.request.max_tokens", 100),
		attribute.StringSlice("gen_ai.request.stop_sequences", []string{"."}), attribute.Int("gen_ai.request.seed", 7),
		attribute.String("reprise.attribute.effort", "low"), attribute.StringSlice("gen_ai.response.finish_reasons", []string{"stop"}),
		attribute.Int("gen_ai.usage.input_tokens", 11), attribute.Int("gen_ai.usage.output_tokens", 5),
		attribute.String("reprise.address", "gpt-4o-mini"), attribute.Int("reprise.attempts", 2), attribute.String("reprise.status", "completed"),
	} {
		got, ok := attributes.Value(want.Key)
		assert.True(t, ok, want.Key)
		assert.Equal(t, want.Value, got, want.Key)
	}
	for _, key := range []attribute.Key{"gen_ai.response.id", "gen_ai.response.model", "server.port"} {
		assert.True(t, attributes.HasValue(key), key)
	}
	assert.False(t, attributes.HasValue("error.type"), "it completed")
	for _, kv := range span.Attributes() {
		assert.NotContains(t, kv.Value.String(), "secret", "Options.Content is not set")
	}
	for _, s := range k.spans.Ended() {
		if s.Name() == "attempt" && s.Status().Code == codes.Error {
			assert.Contains(t, texts(s.Attributes()), "error.type=server")
			assert.Contains(t, texts(s.Attributes()), "http.response.status_code=503")
		}
	}
	metrics := k.metrics(t)
	found := 0
	for name, value := range metrics {
		if strings.HasPrefix(name, "gen_ai.client.token.usage{") {
			found++
			assert.InDelta(t, map[bool]float64{true: 11, false: 5}[strings.Contains(name, "gen_ai.token.type=input")], value, 0, name)
			assert.Contains(t, name, "gen_ai.provider.name=127.0.0.1,gen_ai.request.model=gpt-4o-mini,gen_ai.response.model=")
		}
	}
	assert.Equal(t, 2, found, metrics)
}

func TestFailedModelHasAnErrorTypeAndItsDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, otel.Options{})
		st := state.New(k.telemetry.Run()...)
		model := decorators.LLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
			time.Sleep(2 * time.Second) //nolint:forbidigo // by the clock of the bubble
			core.AddUsage(ctx, core.Usage{InputTokens: 4})
			return actors.Response{}, context.DeadlineExceeded
		}, actors.WithRetry(core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}))
		_, err := model.Call(st.Context(t.Context()), actors.Request{})
		require.Error(t, err)
		require.NoError(t, st.Close())
		span := k.span(t, "chat model")
		assert.Equal(t, codes.Error, span.Status().Code)
		assert.Subset(t, texts(span.Attributes()), []string{
			"error.type=timeout", "reprise.reason=exhausted", "gen_ai.usage.input_tokens=8", "gen_ai.provider.name=_OTHER",
		})
		metrics := k.metrics(t)
		const of = "gen_ai.operation.name=chat,gen_ai.provider.name=_OTHER,gen_ai.request.model=model"
		assert.InDelta(t, 4, metrics["gen_ai.client.operation.duration{error.type=timeout,"+of+"}"], 0, metrics)
		assert.InDelta(t, 8, metrics["gen_ai.client.token.usage{"+of+",gen_ai.token.type=input}"], 0, metrics)
	})
}

func TestAttributesOfAttemptsAreThoseOfSpans(t *testing.T) {
	k := newKit(t, otel.Options{})
	st := state.New(k.telemetry.Run()...)
	annotate := func(ctx context.Context) {
		attempt := core.ScopeOf(ctx).Attempt()
		core.Annotate(ctx, "response_id", []string{"r1", "r2"}[attempt])
		core.Annotate(ctx, "request_model", "other")
		core.Annotate(ctx, "model", "m")
		core.Annotate(ctx, "finish", "stop")
		core.Annotate(ctx, "first_token", 1500*time.Millisecond)
		core.Annotate(ctx, "temperature", "hot") // not a number
		core.Annotate(ctx, "top_k", 3)
		core.Annotate(ctx, "stop", "no JSON")
		core.Annotate(ctx, "n", 3)
		core.Annotate(ctx, "yes", true)
		core.Annotate(ctx, "note", "text")
	}
	model := decorators.LLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		annotate(ctx)
		if core.ScopeOf(ctx).Attempt() == 0 {
			return actors.Response{}, core.Retryable(errors.New("busy"))
		}
		return actors.Response{Message: actors.Assistant("out")}, nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	_, err := model.Call(st.Context(t.Context()), actors.Request{})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	attributes := k.span(t, "chat other").Attributes()
	for _, want := range []attribute.KeyValue{
		attribute.String("gen_ai.response.id", "r2"), attribute.String("gen_ai.response.model", "m"), attribute.String("gen_ai.request.model", "other"),
		attribute.StringSlice("gen_ai.response.finish_reasons", []string{"stop"}), attribute.Int("gen_ai.request.choice.count", 3),
		attribute.Float64("gen_ai.response.time_to_first_chunk", 1.5), attribute.Bool("gen_ai.request.stream", true),
		attribute.Float64("gen_ai.request.top_k", 3), attribute.String("reprise.attribute.temperature", "hot"),
		attribute.String("reprise.attribute.stop", "no JSON"), attribute.Bool("reprise.attribute.yes", true), attribute.String("reprise.attribute.note", "text"),
	} {
		assert.Contains(t, attributes, want)
	}
	for _, s := range k.spans.Ended() {
		if s.Name() == "attempt" && s.Status().Code == codes.Error {
			assert.Contains(t, s.Attributes(), attribute.String("reprise.attribute.response_id", "r1"), "the attributes of the failed attempt")
		}
	}
}

func TestContentIsExportedIfItIsAskedFor(t *testing.T) {
	k := newKit(t, otel.Options{Content: true, Redact: func(text string) string { return strings.ReplaceAll(text, "Oslo", "[city]") }})
	model := actorstest.NewScript(t, actorstest.Calls(actorstest.Call("weather", in{"Oslo"})), actorstest.Say("Cold."))
	weather := decorators.Tool("weather", "Tells the weather.", func(context.Context, in) (string, error) { return "4 °C in Oslo", nil })
	secret := decorators.Tool("secret", "", func(context.Context, in) (string, error) { return "hidden output", nil }, actors.WithNoStore())
	agent := actors.NewAgent("assistant", model.LLM("model"), actors.WithTools(weather), actors.WithInstructions("Be brief."))
	st := state.New(k.telemetry.Run()...)
	ctx := st.Context(t.Context())
	_, err := agent.Call(ctx, actors.Ask("How warm is it in Oslo?", actors.Image("image/png", []byte("pixels"))))
	require.NoError(t, err)
	_, err = secret.Call(ctx, in{"x"})
	require.NoError(t, err)
	require.NoError(t, st.Close())

	tool := attribute.NewSet(k.span(t, "execute_tool weather").Attributes()...)
	arguments, _ := tool.Value("gen_ai.tool.call.arguments")
	result, _ := tool.Value("gen_ai.tool.call.result")
	assert.JSONEq(t, `{"text":"[city]"}`, arguments.AsString())
	assert.Equal(t, `"4 °C in [city]"`, result.AsString())
	var last attribute.Set
	for _, s := range k.spans.Ended() {
		if s.Name() == "chat model" {
			last = attribute.NewSet(s.Attributes()...)
		}
		for _, kv := range s.Attributes() {
			assert.NotContains(t, kv.Value.String(), "Oslo")
			assert.NotContains(t, kv.Value.String(), "hidden")
		}
	}
	messages, _ := last.Value("gen_ai.input.messages")
	assert.JSONEq(t, `[
		{"role":"system","parts":[{"type":"text","content":"Be brief."}]},
		{"role":"user","parts":[{"type":"text","content":"How warm is it in [city]?"},{"type":"blob","mime_type":"image/png","modality":"image","content":""}]},
		{"role":"assistant","parts":[{"type":"tool_call","id":"call_1","name":"weather","arguments":{"text":"[city]"}}]},
		{"role":"tool","parts":[{"type":"tool_call_response","id":"call_1","response":"4 °C in [city]"}]}
	]`, messages.AsString())
	output, _ := last.Value("gen_ai.output.messages")
	assert.JSONEq(t, `[{"role":"assistant","parts":[{"type":"text","content":"Cold."}],"finish_reason":"stop"}]`, output.AsString())
	definitions, _ := last.Value("gen_ai.tool.definitions")
	var tools []map[string]any
	require.NoError(t, json.Unmarshal([]byte(definitions.AsString()), &tools))
	assert.Equal(t, "weather", tools[0]["name"])
}

func TestCallThatIsRefusedHasASpanWhereItWasMade(t *testing.T) {
	k := newKit(t, otel.Options{})
	picky := decorators.Tool("picky", "", func(context.Context, in) (string, error) { return "", nil }).
		Require(func(context.Context, in) error { return errors.New("not today") })
	agent := decorators.Agent("agent", "", picky.Call)
	st := state.New(k.telemetry.Run()...)
	_, err := agent.Call(st.Context(t.Context()), in{"x"})
	require.ErrorIs(t, err, core.ErrPrecondition)
	require.NoError(t, st.Close())
	refused := k.span(t, "execute_tool picky")
	assert.Equal(t, k.span(t, "attempt").SpanContext().SpanID(), refused.Parent().SpanID())
	assert.Equal(t, codes.Error, refused.Status().Code)
	assert.Subset(t, texts(refused.Attributes()), []string{"error.type=invalid", "reprise.reason=precondition", "reprise.stage=precondition", "reprise.attempts=0"})
}

func TestCallsOfAGroupAreBelowTheAttemptThatMadeIt(t *testing.T) {
	k := newKit(t, otel.Options{})
	tool := decorators.Tool("tool", "", func(_ context.Context, in in) (string, error) { return in.Text, nil })
	agent := decorators.Agent("agent", "", func(ctx context.Context, in in) ([]string, error) {
		call := func(ctx context.Context) (string, error) { return tool.Call(ctx, in) }
		return actors.Parallel(ctx, actors.Group{Name: "both"}, call, call)
	})
	st := state.New(k.telemetry.Run()...)
	_, err := agent.Call(st.Context(t.Context()), in{"x"})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Equal(t, []string{"attempt", "attempt", "attempt", "execute_tool tool", "execute_tool tool", "invoke_agent agent", "run"}, k.names())
	var parents []string
	for _, s := range k.spans.Ended() {
		if s.Name() == "execute_tool tool" {
			parents = append(parents, s.Parent().SpanID().String())
		}
	}
	assert.Equal(t, parents[0], parents[1])
}

func TestRequestInThisProcessIsLinkedToItsCalls(t *testing.T) {
	k := newKit(t, otel.Options{})
	tool := decorators.Tool("tool", "", func(_ context.Context, in in) (string, error) { return in.Text, nil })
	st := state.New(k.telemetry.Run()...)
	ctx, request := k.provider.Tracer("server").Start(t.Context(), "GET /")
	_, err := tool.Call(st.Context(ctx), in{"x"})
	require.NoError(t, err)
	request.End()
	require.NoError(t, st.Close())
	span := k.span(t, "execute_tool tool")
	assert.Equal(t, k.span(t, "run").SpanContext().SpanID(), span.Parent().SpanID())
	require.Len(t, span.Links(), 1)
	assert.Equal(t, request.SpanContext().SpanID(), span.Links()[0].SpanContext.SpanID())
}

func TestSamplingIsDecidedOnceForARun(t *testing.T) {
	store := memstore.New()
	tool := decorators.Tool("tool", "", func(_ context.Context, in in) (string, error) { return in.Text, nil })
	again := decorators.Tool("again", "", func(_ context.Context, in in) (string, error) { return in.Text, nil })
	for n, sampler := range []sdk.Sampler{sdk.NeverSample(), sdk.ParentBased(sdk.AlwaysSample())} {
		k := newKit(t, otel.Options{})
		telemetry, err := otel.New(otel.Options{Tracer: sdk.NewTracerProvider(sdk.WithSampler(sampler), sdk.WithSpanProcessor(k.spans))})
		require.NoError(t, err)
		st, err := state.Open(t.Context(), store, "a", append(telemetry.Run(), state.WithFurtherCalls())...)
		require.NoError(t, err)
		_, err = tool.Call(st.Context(t.Context()), in{"x"})
		require.NoError(t, err)
		if n == 1 {
			_, err = again.Call(st.Context(t.Context()), in{"x"})
			require.NoError(t, err)
		}
		require.NoError(t, st.Close())
		assert.Empty(t, k.spans.Started(), n)
	}
}
