package openai_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// place is the answer type of the typed agents in the tests.
type place struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

// The service may follow the requested format, ignore it or refuse it.
func TestATypedAnswerIsCheckedWhateverTheServiceDoes(t *testing.T) {
	const fits, other = `{"name":"Oslo","size":7}`, `{"name":"Oslo","size":"big"}`
	for name, c := range map[string]struct {
		steps []openaitest.Step
		asked int
	}{
		"keeps to it":          {[]openaitest.Step{openaitest.Text(fits)}, 1},
		"ignores it":           {[]openaitest.Step{openaitest.Text("It is Oslo."), openaitest.Text(other), openaitest.Text(fits)}, 3},
		"refuses it":           {[]openaitest.Step{refusesFormats, openaitest.ToolCalls(openaitest.Call("answer", fits))}, 2},
		"refuses, and ignores": {[]openaitest.Step{refusesFormats, openaitest.ToolCalls(openaitest.Call("answer", other)), openaitest.Text("Oslo."), openaitest.ToolCalls(openaitest.Call("answer", fits))}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			onWires(t, func(t *testing.T, model func(*openaitest.Server) openai.Model) {
				srv := openaitest.New(t, c.steps...)
				st := state.New()
				defer st.Close()
				agent := actors.NewTypedAgent[string, place]("guide", model(srv).LLM(atOnce), actors.WithMaxCorrections(2))
				got, err := agent.Call(st.Context(t.Context()), "Where?")
				require.NoError(t, err)
				require.Equal(t, place{"Oslo", 7}, got)
				require.Len(t, srv.Requests(), c.asked, "each request is a call")
			})
		})
	}
}

var refusesFormats = openaitest.Raw(400, `{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model","param":"response_format"}}`)

// runWithFailures runs an agent that calls tools and whose service fails occasionally. It returns
// the records of the run.
func runWithFailures(t *testing.T, watch func(context.Context) context.Context) string {
	t.Helper()
	srv := openaitest.NewLocal(t,
		openaitest.RateLimited(time.Second),
		openaitest.ToolCalls(openaitest.Call("f", `{"n":1}`), openaitest.Call("f", `{"n":2}`)).WithText("Let me look.").WithReasoning("Hm.").WithUsage(9, 4),
		openaitest.Failure(503, "busy"),
		openaitest.Text("It is fine.").WithUsage(20, 3),
	)
	st := state.New(state.WithRunID("r"))
	tool := actors.NewTool("f", "F.", anyObject{}, func(_ context.Context, in struct{ N int }) (int, error) { return in.N, nil })
	llm := openai.New("m", openai.WithBaseURL(srv.URL()), openai.WithHTTPClient(srv.Client()), atOnce)
	_, err := actors.NewAgent("assistant", llm, actors.WithTools(tool), actors.WithToolWorkers(1)).Call(watch(st.Context(t.Context())), actors.Ask("Well?"))
	require.NoError(t, err)
	require.NoError(t, st.Close())
	data, err := json.MarshalIndent(testkit.Records(t, st), "", " ")
	require.NoError(t, err)
	return string(data)
}

// TestStreamingLeavesTheSameRecords also compares the times of the records: the clock of every
// bubble starts at the same time.
func TestStreamingLeavesTheSameRecords(t *testing.T) {
	var plain, streamed string
	var s seen
	synctest.Test(t, func(t *testing.T) {
		plain = runWithFailures(t, func(ctx context.Context) context.Context { return ctx })
	})
	synctest.Test(t, func(t *testing.T) {
		streamed = runWithFailures(t, func(ctx context.Context) context.Context { return live.Watch(ctx, s.watch) })
	})
	require.Equal(t, "Let me look.It is fine.", s.part(live.PartText, 1), "the second attempts of both calls")
	require.Equal(t, plain, strings.ReplaceAll(streamed, "   \"first_token\": 0,\n", ""), "except for what only a stream shows")
}

// The loop over a stream is left early. The call ends normally, and no goroutine remains in the
// bubble.
func TestAnAbandonedLoopLeavesNothing(t *testing.T) {
	for _, api := range []openai.API{openai.Chat, openai.Responses} {
		synctest.Test(t, func(t *testing.T) {
			srv := openaitest.NewLocal(t, openaitest.Text("one two three").WithPace(time.Second))
			client := srv.Client()
			defer client.CloseIdleConnections()
			model := openai.Model{Name: "m", BaseURL: srv.URL(), HTTPClient: client, API: api}
			st := state.New()
			var answer actors.Answer
			for d, err := range actors.Stream(st.Context(t.Context()), actors.NewAgent("assistant", model.LLM()), actors.Ask("?"), &answer) {
				require.NoError(t, err)
				require.Equal(t, live.PartBegin, d.Part)
				break
			}
			require.Equal(t, "one two three", answer.Text)
			require.NoError(t, st.Close())
			require.Equal(t, snapshot.StatusCompleted, st.Status())
		})
	}
}
