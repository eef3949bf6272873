package window_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/failover"
	"github.com/reprise-go/reprise/policy/window"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// spare returns a model that must not be called.
func spare() actors.LLM {
	return actors.NewLLM("spare", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{}, core.Permanent(errors.New("the spare model is called"))
	})
}

// surroundings are the ways in which models can surround a window.
var surroundings = map[string]func(llm actors.LLM) actors.LLM{
	"nothing":  func(llm actors.LLM) actors.LLM { return llm },
	"failover": func(llm actors.LLM) actors.LLM { return failover.New("outer", failover.Options{}, llm, spare()) },
	"hedging failover": func(llm actors.LLM) actors.LLM {
		return failover.New("outer", failover.Options{HedgeAfter: time.Hour}, llm, spare())
	},
	"failover in a failover": func(llm actors.LLM) actors.LLM {
		return failover.New("outer", failover.Options{}, failover.New("inner", failover.Options{}, llm, spare()), spare())
	},
	"step of a model": func(llm actors.LLM) actors.LLM {
		return actors.NewLLM("outer", func(ctx context.Context, req actors.Request) (actors.Response, error) {
			return core.Step(ctx, "ask", func(ctx context.Context) (actors.Response, error) { return llm.Call(ctx, req) })
		}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	},
}

// When the model calls the read tool, no model surrounds that call.
func TestModelInsideAnotherReadsMoreOfAResult(t *testing.T) {
	for name, surround := range surroundings {
		for _, approved := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", approved ", approved), func(t *testing.T) {
				s := &service{t: t, tokens: 8_000, answer: func(req actors.Request) actors.Message {
					switch results := toolResults(req); len(results) {
					case 0:
						return asks(1, "long", `{"word":"red"}`)
					case 1:
						return asks(2, "read_result", reads(results[0]))
					default:
						return actors.Assistant(results[1])
					}
				}}
				var options []actors.Option
				if approved {
					options = append(options, actors.WithApproval())
				}
				agent := actors.NewAgent("assistant", surround(window.New("any", window.Options{Tokens: 8_000}, s.llm())),
					actors.WithTools(long(), window.ReadTool(options...)), actors.WithInstructions("Read."))
				store := memstore.New()
				call := func(store snapshot.Store) (actors.Answer, error) {
					st, err := state.Open(t.Context(), store, "run")
					require.NoError(t, err)
					defer func() { assert.NoError(t, st.Close()) }()
					return agent.Call(st.Context(t.Context()), actors.Ask("?"))
				}
				answer, err := call(store)
				if approved {
					require.ErrorIs(t, err, core.ErrAwaiting)
					questions, failed := state.Questions(t.Context(), store, "run")
					require.NoError(t, failed)
					require.Len(t, questions, 1)
					require.NoError(t, state.Answer(t.Context(), store, "run", questions[0].ID, "ann", actors.Approve()))
					answer, err = call(store)
				}
				require.NoError(t, err)
				assert.Contains(t, answer.Text, "red red re\n")
				if approved {
					return // the stores below do not contain the approval
				}
				for records, cut := range actorstest.AfterEachRecord(t, store, "run") {
					again, err := call(cut)
					require.NoError(t, err)
					assert.Equal(t, answer, again, "after %d records", len(records))
				}
			})
		}
	}
}

// history returns a conversation that does not fit a window of 4000 tokens.
func history(word string) (messages []actors.Message) {
	for range 20 {
		messages = append(messages, actors.User(strings.Repeat(word+" ", 250)), actors.Assistant(strings.Repeat("yes ", 250)))
	}
	return messages
}

// calling returns a function that calls a tool the given number of times before it answers.
func calling(tool, arguments string, times int) func(actors.Request) actors.Message {
	return func(req actors.Request) actors.Message {
		if n := len(toolResults(req)); n < times {
			return asks(n+1, tool, arguments)
		}
		return actors.Assistant("done")
	}
}

func look() actors.Tool[word, string] {
	return decorators.Tool("look", "", func(context.Context, word) (string, error) { return "nothing", nil })
}

func TestSummaryIsMadeOnceInsideAnotherModel(t *testing.T) {
	for name, surround := range surroundings {
		t.Run(name, func(t *testing.T) {
			made := 0
			s := &service{t: t, tokens: 8_000, answer: calling("look", `{"word":"red"}`, 8)}
			llm := window.New("any", window.Options{Tokens: 4_000, Summarizer: summarizer(&made)}, s.llm())
			agent := actors.NewAgent("assistant", surround(llm), actors.WithTools(look()), actors.WithInstructions("Look."))
			_, ctx := testkit.Run(t)
			_, err := agent.Call(ctx, actors.Prompt{Text: "Go.", History: history("what")})
			require.NoError(t, err)
			assert.Len(t, s.asked, 9)
			assert.Equal(t, 1, made)
			assert.Equal(t, s.asked[0].Messages, s.asked[8].Messages[:len(s.asked[0].Messages)], "the beginning stays the same")
		})
	}
}

// A failover calls its first model in each turn, even while that model is not available.
func TestSummaryIsMadeOnceForAModelThatFails(t *testing.T) {
	made := 0
	down := actors.NewLLM("down", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{}, &httperror.Error{Code: 503}
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	s := &service{t: t, tokens: 32_000, answer: calling("look", `{"word":"red"}`, 8)}
	llm := failover.New("model", failover.Options{}, window.New("any", window.Options{Tokens: 4_000, Summarizer: summarizer(&made)}, down), s.llm())
	agent := actors.NewAgent("assistant", llm, actors.WithTools(look()), actors.WithInstructions("Look."))
	call := func(store snapshot.Store) error {
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		defer func() { assert.NoError(t, st.Close()) }()
		_, err = agent.Call(st.Context(t.Context()), actors.Prompt{Text: "Go.", History: history("what")})
		return err
	}
	store := memstore.New()
	require.NoError(t, call(store))
	assert.Len(t, s.asked, 9)
	assert.Equal(t, 1, made)

	for records, cut := range actorstest.AfterEachRecord(t, store, "run") {
		made = 0
		require.NoError(t, call(cut))
		if slices.Contains(actorstest.Endings(records), "assistant/model/any/step:summary/summarizer completed") {
			made++
		}
		assert.Equal(t, 1, made, "after %d records", len(records))
	}
}

// The models of a failover have contexts of different sizes. What is left out for the smaller model
// is still sent to the larger one.
func TestWindowsOfAFailoverDoNotAffectEachOther(t *testing.T) {
	made := 0
	answer := calling("look", `{"word":"red"}`, 8)
	small, large := &service{t: t, tokens: 8_000, answer: answer}, &service{t: t, tokens: 32_000, answer: answer}
	turn := 0
	busy := actors.NewLLM("busy", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		if turn++; turn%2 == 0 {
			return actors.Response{}, &httperror.Error{Code: 503}
		}
		return large.llm().Call(ctx, req)
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	llm := failover.New("model", failover.Options{},
		window.New("large", window.Options{Tokens: 32_000}, busy),
		window.New("small", window.Options{Tokens: 4_000, Summarizer: summarizer(&made)}, small.llm()))
	agent := actors.NewAgent("assistant", llm, actors.WithTools(look()), actors.WithInstructions("Look."))
	_, ctx := testkit.Run(t)
	_, err := agent.Call(ctx, actors.Prompt{Text: "Go.", History: history("what")})
	require.NoError(t, err)
	require.Len(t, large.asked, 5)
	require.Len(t, small.asked, 4)
	for i, req := range large.asked {
		assert.Len(t, req.Messages, 42+4*i, "the whole conversation")
	}
	for _, req := range small.asked {
		assert.Contains(t, req.Messages[1].Text, "Summary of earlier turns")
	}
	assert.Equal(t, 1, made)
}

// An agent that is used as a tool by another agent makes its calls between those of the other
// agent.
func TestEachAgentHasItsOwnWindow(t *testing.T) {
	for name, surround := range surroundings {
		t.Run(name, func(t *testing.T) {
			made := 0
			build := func(name string, answer func(actors.Request) actors.Message, tools ...actors.Function) actors.Agent[actors.Prompt, actors.Answer] {
				s := &service{t: t, tokens: 8_000, answer: answer}
				llm := window.New("any", window.Options{Tokens: 4_000, Summarizer: summarizer(&made)}, s.llm())
				return actors.NewAgent(name, surround(llm), actors.WithTools(tools...), actors.WithInstructions("Look."))
			}
			helper := build("helper", calling("look", `{"word":"red"}`, 3), look())
			asked := decorators.Agent("ask", "", func(ctx context.Context, in struct {
				Text string `json:"text"`
			},
			) (string, error) {
				answer, err := helper.Call(ctx, actors.Prompt{Text: in.Text, History: history("why")})
				return answer.Text, err
			})
			_, ctx := testkit.Run(t)
			_, err := build("assistant", calling("ask", `{"text":"go"}`, 3), asked).Call(ctx, actors.Prompt{Text: "Go.", History: history("what")})
			require.NoError(t, err)
			assert.Equal(t, 4, made, "one for the assistant, and one for each of the three calls of the helper")
		})
	}
}

// A model may call an agent, or a tool that calls a model.
func TestAgentThatAModelCallsHasItsOwnWindow(t *testing.T) {
	for name, define := range map[string]func(name string, h core.Handler[word, string]) func(context.Context, word) (string, error){
		"agent": func(name string, h core.Handler[word, string]) func(context.Context, word) (string, error) {
			return decorators.Agent(name, "", h).Call
		},
		"tool": func(name string, h core.Handler[word, string]) func(context.Context, word) (string, error) {
			return decorators.Tool(name, "", h).Call
		},
	} {
		t.Run(name, func(t *testing.T) {
			made := 0
			s := &service{t: t, tokens: 8_000, answer: calling("look", `{"word":"red"}`, 3)}
			llm := window.New("any", window.Options{Tokens: 4_000, Summarizer: summarizer(&made)}, s.llm())
			helper := define("helper", func(ctx context.Context, w word) (string, error) {
				_, err := llm.Call(ctx, actors.Request{Messages: append([]actors.Message{actors.System("Look.")}, history(w.Word)...)})
				return "", err
			})
			expert := actors.NewLLM("expert", func(ctx context.Context, req actors.Request) (actors.Response, error) {
				if _, err := helper(ctx, word{"why"}); err != nil {
					return actors.Response{}, err
				}
				return llm.Call(ctx, req)
			})
			agent := actors.NewAgent("assistant", expert, actors.WithTools(look()), actors.WithInstructions("Look."))
			_, ctx := testkit.Run(t)
			_, err := agent.Call(ctx, actors.Prompt{Text: "Go.", History: history("what")})
			require.NoError(t, err)
			assert.Equal(t, 5, made, "one for the assistant, and one for each of the four calls of the helper")
		})
	}
}

func TestAgentCannotReadTheResultsOfAnother(t *testing.T) {
	llm := func(answer func(req actors.Request, results []string) actors.Message) actors.LLM {
		s := &service{t: t, tokens: 8_000, answer: func(req actors.Request) actors.Message { return answer(req, toolResults(req)) }}
		return failover.New("model", failover.Options{}, window.New("any", window.Options{Tokens: 8_000}, s.llm()), spare())
	}
	helper := actors.NewAgent("helper", llm(func(req actors.Request, results []string) actors.Message {
		switch len(results) {
		case 0:
			return asks(1, "read_result", question(req))
		case 1:
			return asks(2, "long", `{"word":"tan"}`)
		case 2:
			return asks(3, "read_result", reads(results[1]))
		}
		return actors.Assistant(results[0] + "; " + results[2] + "; " + noted(results[1]))
	}), actors.WithTools(long(), window.ReadTool()), actors.WithInstructions("Read."))
	assistant := actors.NewAgent("assistant", llm(func(_ actors.Request, results []string) actors.Message {
		switch len(results) {
		case 0:
			return asks(1, "long", `{"word":"red"}`)
		case 1:
			return asks(2, "helper", fmt.Sprintf(`{"text":%q}`, reads(results[0])))
		case 2:
			_, id, _ := strings.Cut(results[1], "; r")
			return asks(3, "read_result", fmt.Sprintf(`{"id":"r%s","offset":0}`, id))
		}
		return actors.Assistant(strings.Join(results[1:], "\n"))
	}), actors.WithTools(long(), window.ReadTool(), helper), actors.WithInstructions("Read."))
	_, ctx := testkit.Run(t)
	answer, err := assistant.Call(ctx, actors.Ask("?"))
	require.NoError(t, err)
	assert.Regexp(t, `(?s)^error: there is no truncated result "r[0-9a-f]{12}"; tan tan ta\n.*; r[0-9a-f]{12}\nerror: there is no truncated result "r[0-9a-f]{12}"$`, answer.Text)
}

// Conversations that an agent has concurrently, in branches or in tools, do not share a summary.
func TestParallelConversationsHaveTheirOwnSummaries(t *testing.T) {
	for name, surround := range surroundings {
		t.Run(name, func(t *testing.T) {
			made := make(chan string, 100)
			noting := actors.NewLLM("summarizer", func(_ context.Context, req actors.Request) (actors.Response, error) {
				made <- req.Messages[1].Text[:10]
				return actors.Response{Message: actors.Assistant("Much was asked.")}, nil
			})
			model := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
				return actors.Response{Message: actors.Assistant("yes")}, nil
			})
			llm := surround(window.New("any", window.Options{Tokens: 4_000, Summarizer: noting}, model))
			turns := make([]sync.WaitGroup, 5)
			for i := range turns {
				turns[i].Add(4)
			}
			talk := func(ctx context.Context, w word) (string, error) {
				messages := history(w.Word)
				for i := range turns {
					turns[i].Done()
					turns[i].Wait() // wait until each conversation has come as far as the others
					messages = append(messages, actors.User("and now?"))
					resp, err := llm.Call(ctx, actors.Request{Messages: messages})
					if err != nil {
						return "", err
					}
					messages = append(messages, resp.Message)
				}
				return "", nil
			}
			tool := decorators.Tool("talk", "", talk)
			agent := decorators.Agent("assistant", "", func(ctx context.Context, _ struct{}) ([]string, error) {
				var branches []func(context.Context) (string, error)
				for _, w := range []string{"aaa", "bbb"} {
					branches = append(branches, func(ctx context.Context) (string, error) { return talk(ctx, word{w}) })
				}
				for _, w := range []string{"ccc", "ddd"} {
					branches = append(branches, func(ctx context.Context) (string, error) { return tool.Call(ctx, word{w}) })
				}
				return actors.Parallel(ctx, actors.Group{Name: "talks"}, branches...)
			})
			_, ctx := testkit.Run(t)
			_, err := agent.Call(ctx, struct{}{})
			require.NoError(t, err)
			close(made)
			var all []string
			for text := range made {
				all = append(all, text)
			}
			assert.ElementsMatch(t, []string{"user: aaa ", "user: bbb ", "user: ccc ", "user: ddd "}, all)
		})
	}
}

// If the same agent calls several windows with the same name, they share what they know. Their
// requests still fit, and the model can still read the results.
func TestWindowsOfTheSameNameInOneAgent(t *testing.T) {
	small, large := &service{t: t, tokens: 4_000}, &service{t: t, tokens: 32_000}
	one := window.New("any", window.Options{Tokens: 4_000}, small.llm())
	other := window.New("any", window.Options{Tokens: 32_000}, large.llm())
	answer := func(req actors.Request) actors.Message {
		n := 0
		for _, m := range req.Messages {
			for _, c := range m.ToolCalls {
				_, err := fmt.Sscanf(c.ID, "c%d", &n)
				assert.NoError(t, err)
			}
		}
		if n < 20 {
			return asks(n+1, "long", fmt.Sprintf(`{"word":"%d"}`, n+1000))
		}
		results := toolResults(req)
		if n == 20 {
			return asks(n+1, "read_result", reads(results[len(results)-1]))
		}
		return actors.Assistant(results[len(results)-1])
	}
	small.answer, large.answer = answer, answer
	turn := 0
	both := actors.NewLLM("both", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		if turn++; turn%2 == 0 {
			return one.Call(ctx, req)
		}
		return other.Call(ctx, req)
	})
	agent := actors.NewAgent("assistant", both, actors.WithTools(long(), window.ReadTool()), actors.WithInstructions("Read."), actors.WithMaxTurns(30))
	_, ctx := testkit.Run(t)
	got, err := agent.Call(ctx, actors.Ask("?"))
	require.NoError(t, err)
	assert.Contains(t, got.Text, "1019")
	for _, req := range append(small.asked, large.asked...) {
		assert.Equal(t, "?", question(req))
	}
}
