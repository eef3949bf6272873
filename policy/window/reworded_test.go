package window_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/window"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A wording consists of the parts of a program that may change while its runs continue.
type wording struct {
	instructions, description string
	maxTokens                 int
	addsTool                  bool
	isSmaller                 bool // the window
}

var (
	short    = wording{instructions: "Be kind.", description: "Looks.", maxTokens: 100}
	wordings = map[string]wording{
		"longer instructions":   {instructions: strings.Repeat("Be kind and precise. ", 100), description: "Looks.", maxTokens: 100},
		"no instructions":       {description: "Looks.", maxTokens: 100},
		"more tokens to answer": {instructions: "Be kind.", description: "Looks.", maxTokens: 1500},
		"tools":                 {instructions: "Be kind.", description: strings.Repeat("Looks at things. ", 100), maxTokens: 100, addsTool: true},
		"a smaller window":      {instructions: "Be kind.", description: "Looks.", maxTokens: 100, isSmaller: true},
	}
)

// A program is an agent with a window.
type program struct {
	prompt    actors.Prompt
	turns     int  // number of tool calls before the answer
	summarize bool // with a summarizer
	refuses   int  // number of tokens above which the model refuses a conversation; 0 for no limit
	fails     bool // the model fails when called for the second time in the first opening
	surround  func(actors.LLM) actors.LLM

	resumed  bool
	made     map[string]int // number of model calls in this opening, by name
	requests []actors.Request
}

func (p *program) model(_ context.Context, req actors.Request) (actors.Response, error) {
	if p.made["model"]++; p.fails && p.made["model"] == 2 && !p.resumed {
		return actors.Response{}, &httperror.Error{Code: 503}
	}
	tokens, last := 0, 0
	for _, m := range req.Messages {
		tokens += window.Estimate(m)
		for _, c := range m.ToolCalls {
			_, _ = fmt.Sscanf(c.ID, "c%d", &last)
		}
	}
	if p.refuses > 0 && tokens > p.refuses {
		return actors.Response{}, core.Permanent(actors.ErrContextTooLong)
	}
	p.requests = append(p.requests, req)
	if last < p.turns {
		return actors.Response{Message: asks(last+1, "look", fmt.Sprintf(`{"word":"w%d"}`, last+1))}, nil
	}
	return actors.Response{Message: actors.Assistant("done")}, nil
}

func (p *program) call(t *testing.T, store snapshot.Store, now wording) (actors.Answer, error) {
	t.Helper()
	p.made = make(map[string]int)
	st, err := state.Open(t.Context(), store, "run")
	require.NoError(t, err)
	defer func() { assert.NoError(t, st.Close()) }()
	o := window.Options{Tokens: 4_000}
	if now.isSmaller {
		o.Tokens = 3_000
	}
	if p.fails {
		o.Actor = []actors.Option{actors.WithRetry(core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay, RetryWhen: func(a core.Attempt) bool { return a.Err != nil }})}
	}
	if p.summarize {
		o.Summarizer = actors.NewLLM("summarizer", func(_ context.Context, req actors.Request) (actors.Response, error) {
			p.made["summarizer"]++
			return actors.Response{Message: actors.Assistant(fmt.Sprint("a summary of ", len(req.Messages[1].Text), " bytes"))}, nil
		})
	}
	llm := window.New("w", o, actors.NewLLM("model", p.model, actors.WithRetry(core.RetryConfig{MaxAttempts: 1})))
	if p.surround != nil {
		llm = p.surround(llm)
	}
	tools := []actors.Function{decorators.Tool("look", now.description, func(_ context.Context, w word) (string, error) {
		return strings.Repeat(w.Word+", ", 380), nil
	})}
	if now.addsTool {
		tools = append(tools, window.ReadTool())
	}
	agent := actors.NewAgent("assistant", llm, actors.WithTools(tools...), actors.WithInstructions(now.instructions), actors.WithMaxTurns(p.turns+1),
		actors.WithModelOptions(actors.ModelOptions{MaxTokens: now.maxTokens}))
	return agent.Call(st.Context(t.Context()), p.prompt)
}

// ended returns how many calls each model has ended, by name.
func ended(records []record.Record) map[string]int {
	n := make(map[string]int)
	for i := range records {
		if r := &records[i]; (r.Name == "model" || r.Name == "summarizer") && (r.Status == record.StatusCompleted || r.Status == record.StatusFailed) {
			n[r.Name]++
		}
	}
	return n
}

func recordsOf(t *testing.T, store snapshot.Store) (records []record.Record) {
	t.Helper()
	run, err := store.Load(t.Context(), "run")
	require.NoError(t, err)
	for rec, err := range run.Records() {
		require.NoError(t, err)
		records = append(records, rec)
	}
	return records
}

// A deployment changes instructions, descriptions, tools and options. It may interrupt the run
// after any record.
func TestRewordedProgramContinuesItsRuns(t *testing.T) {
	begun := actors.Prompt{Text: "Go.", History: history("what")[:6]} // three turns later, it no longer fits
	whole := actors.Prompt{Text: "Go.", History: history("what")}
	programs := map[string]program{
		"growing":                         {prompt: begun, turns: 6},
		"growing, summarized":             {prompt: begun, turns: 6, summarize: true},
		"growing, refused":                {prompt: begun, turns: 4, refuses: 2_500},
		"growing, refused and summarized": {prompt: begun, turns: 4, refuses: 2_500, summarize: true},
		"too long from the beginning":     {prompt: whole, turns: 2, summarize: true},
		"with a long question":            {prompt: actors.Ask(strings.Repeat("why? ", 8_000)), turns: 2},
		"attempted again":                 {prompt: whole, turns: 2, summarize: true, refuses: 2_500, fails: true},
		"inside a failover":               {prompt: begun, turns: 5, summarize: true, surround: surroundings["failover"]},
	}
	for kind, p := range programs {
		for change, other := range wordings {
			for _, back := range []bool{false, true} {
				before, after := short, other
				if back {
					before, after = other, short
				}
				t.Run(fmt.Sprintf("%s/%s/back %v", kind, change, back), func(t *testing.T) {
					store := memstore.New()
					p.resumed = false
					_, err := p.call(t, store, before)
					require.NoError(t, err)
					p.resumed = true
					for records, left := range actorstest.AfterEachRecord(t, store, "run") {
						answer, err := p.call(t, left, after)
						require.NoError(t, err, "after %d records", len(records))
						assert.Equal(t, "done", answer.Text)
						want := ended(recordsOf(t, left))
						for name, n := range ended(records) {
							want[name] -= n
						}
						for name, n := range want {
							assert.Equal(t, n, p.made[name], "calls of %s after %d records", name, len(records))
						}
					}
				})
			}
		}
	}
}

// Turns that were left out and summarized stay so if the instructions change between two turns.
func TestRewordedInstructionsKeepTheSummary(t *testing.T) {
	p := program{prompt: actors.Prompt{Text: "Go.", History: history("what")}, turns: 3, summarize: true}
	store := memstore.New()
	_, err := p.call(t, store, short)
	require.NoError(t, err)
	assert.Equal(t, 1, p.made["summarizer"])
	first := p.requests[0].Messages
	require.Contains(t, first[1].Text, "a summary of ")
	for records, left := range actorstest.AfterEachRecord(t, store, "run") {
		if ended(records)["model"] != 1 {
			continue
		}
		p.requests = nil
		_, err := p.call(t, left, wording{instructions: "Be friendly, and always answer in English.", description: "Looks.", maxTokens: 100})
		require.NoError(t, err)
		assert.Zero(t, p.made["summarizer"], "after %d records", len(records))
		for _, req := range p.requests {
			assert.Equal(t, first[1:], req.Messages[1:len(first)], "after %d records", len(records))
		}
	}
}

// Only what is left out is recorded.
func TestConversationThatFitsHasNoMoreRecords(t *testing.T) {
	p := program{prompt: actors.Ask("Go."), turns: 3}
	store := memstore.New()
	_, err := p.call(t, store, short)
	require.NoError(t, err)
	for _, rec := range recordsOf(t, store) {
		assert.NotContains(t, []record.Kind{record.KindValue, record.KindStep}, rec.Kind)
	}
}
