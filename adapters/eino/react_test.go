package eino_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestMain(m *testing.M) { process.Main(m, process.Programs{"react": killable}) }

// ways are the two ways to call an agent.
var ways = map[string]func(t testing.TB, g *guide, greeter *greet) func(context.Context) (string, error){
	"generate": func(t testing.TB, g *guide, greeter *greet) func(context.Context) (string, error) {
		agent := reactAgent(t, g, greeter.tool(t))
		return func(ctx context.Context) (string, error) {
			answer, err := agent.Generate(ctx, ask)
			if err != nil {
				return "", err
			}
			return answer.Content, nil
		}
	},
	"stream": func(t testing.TB, g *guide, greeter *greet) func(context.Context) (string, error) {
		agent := reactAgent(t, g, greeter.tool(t))
		return func(ctx context.Context) (string, error) {
			stream, err := agent.Stream(ctx, ask)
			if err != nil {
				return "", err
			}
			defer stream.Close()
			var text string
			for {
				piece, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return text, nil
				}
				if err != nil {
					return "", err
				}
				text += piece.Content
			}
		}
	},
}

// inAgent returns a function that makes the call inside an agent made with package decorators.
func inAgent(call func(context.Context) (string, error)) func(context.Context) (string, error) {
	agent := decorators.Agent("assistant", "", func(ctx context.Context, _ person) (string, error) { return call(ctx) })
	return func(ctx context.Context) (string, error) { return agent.Call(ctx, person{"everybody"}) }
}

// eino executes the tools of one message concurrently.
func TestReactAgentThatIsCutAtAnyRecordAsksNothingTwice(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			store, first, greeter := memstore.New(), newGuide(), new(greet)
			out, st, err := opened(t, store, inAgent(way(t, first, greeter)))
			require.NoError(t, err)
			assert.Equal(t, "bye", out)
			assert.Equal(t, []string{"turn 1", "turn 2", "turn 3"}, *first.asked)
			assert.Equal(t, []string{
				"assistant completed 1", "assistant/greet completed 1", "assistant/greet#2 completed 1", "assistant/greet#3 completed 1", "assistant/greet#4 completed 1",
				"assistant/guide completed 1", "assistant/guide#2 completed 1", "assistant/guide#3 completed 1",
			}, endings(t, st))
			assert.Equal(t, core.Usage{InputTokens: 30, OutputTokens: 6}, st.Report().Usage)
			cuts(t, store, func(cut *memstore.Store, outcomes map[string]bool) {
				again, greeter := newGuide(), new(greet)
				out, _, err := opened(t, cut, inAgent(way(t, again, greeter)))
				require.NoError(t, err)
				assert.Equal(t, "bye", out)
				var asked, greeted int
				for address := range outcomes {
					if strings.HasPrefix(address, "assistant/guide") {
						asked++
					} else if strings.HasPrefix(address, "assistant/greet") {
						greeted++
					}
				}
				if outcomes["assistant"] {
					asked, greeted = 3, 4
				}
				assert.Len(t, *again.asked, 3-asked, "%v", outcomes)
				assert.Len(t, greeter.greeted, 4-greeted, "%v", outcomes)
			})
		})
	}
}

func TestToolsOfAMessageHaveTheOrderOfTheMessage(t *testing.T) {
	for range 20 {
		_, st, err := opened(t, memstore.New(), ways["generate"](t, newGuide(), new(greet)))
		require.NoError(t, err)
		records, err := st.Records(t.Context())
		require.NoError(t, err)
		for _, r := range records {
			for i, arguments := range []string{"max 0 0", "max 0 1", "max 1 0", "max 1 1"} {
				if r.Kind == record.KindTool && r.Status == record.StatusCompleted && r.Address.String() == []string{"greet", "greet#2", "greet#3", "greet#4"}[i] {
					var out string
					require.NoError(t, record.Decode(r.Encoded(), &out))
					assert.Equal(t, "hello "+arguments, out)
				}
			}
		}
	}
}

func TestFailuresOfModelsAndToolsAreRetriedAndRecorded(t *testing.T) {
	g := newGuide()
	g.fail = func(asked int) error {
		if asked == 2 {
			return core.Retryable(errors.New("overloaded"))
		}
		return nil
	}
	var mu sync.Mutex
	tries := make(map[string]int)
	flaky, err := utils.InferTool("greet", "", func(_ context.Context, p person) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if tries[p.Name]++; tries[p.Name] == 1 {
			return "", core.Retryable(errors.New("busy"))
		}
		return "hello", nil
	})
	require.NoError(t, err)
	agent := reactAgent(t, g, flaky)
	out, st, err := opened(t, memstore.New(), func(ctx context.Context) (*schema.Message, error) { return agent.Generate(ctx, ask) })
	require.NoError(t, err)
	assert.Equal(t, "bye", out.Content)
	assert.Equal(t, []string{
		"greet completed 2", "greet#2 completed 2", "greet#3 completed 2", "greet#4 completed 2", "guide completed 1", "guide#2 completed 2", "guide#3 completed 1",
	}, endings(t, st))
}

func TestFailureThatIsNotRetriedIsFoundInTheErrorOfTheGraph(t *testing.T) {
	broken := errors.New("out of ink")
	g := newGuide()
	g.fail = func(int) error { return broken }
	agent := reactAgent(t, g, new(greet).tool(t))
	_, st, err := opened(t, memstore.New(), func(ctx context.Context) (*schema.Message, error) { return agent.Generate(ctx, ask) })
	require.ErrorIs(t, err, broken)
	assert.Equal(t, []string{"guide failed 1"}, endings(t, st))
}

func TestInterruptedGraphContinuesWhereItWas(t *testing.T) {
	store, g := memstore.New(), newGuide()
	var st *state.ExecutionState
	g.fail = func(asked int) error {
		if asked == 2 {
			st.Interrupt(snapshot.Stop{By: "deployment"})
		}
		return nil
	}
	agent := reactAgent(t, g, new(greet).tool(t))
	call := inAgent(func(ctx context.Context) (string, error) {
		m, err := agent.Generate(ctx, ask)
		if err != nil {
			return "", err
		}
		return m.Content, nil
	})
	var err error
	st, err = state.Open(t.Context(), store, "a")
	require.NoError(t, err)
	_, err = call(st.Context(t.Context()))
	require.True(t, core.IsSuspension(err), err)
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusInterrupted, st.Status())
	out, st, err := opened(t, store, call)
	require.NoError(t, err)
	assert.Equal(t, "bye", out)
	assert.Equal(t, snapshot.StatusCompleted, st.Status())
	assert.Equal(t, []string{"turn 1", "turn 2", "turn 3"}, *g.asked, "the second tool had answered")
}

func TestAToolOfAGraphAsksSomebody(t *testing.T) {
	store := memstore.New()
	asks, err := utils.InferTool("greet", "", func(ctx context.Context, p person) (string, error) {
		if p.Name != "max 0 0" {
			return "hello", nil
		}
		return core.Await[string](ctx, "What does "+p.Name+" like to hear?")
	})
	require.NoError(t, err)
	g := newGuide()
	agent := reactAgent(t, g, asks)
	call := inAgent(func(ctx context.Context) (string, error) {
		m, err := agent.Generate(ctx, ask)
		if err != nil {
			return "", err
		}
		return m.Content, nil
	})
	_, st, err := opened(t, store, call)
	require.True(t, core.IsSuspension(err), err)
	assert.Equal(t, snapshot.StatusPaused, st.Status())
	questions, err := state.Questions(t.Context(), store, "a")
	require.NoError(t, err)
	require.Len(t, questions, 1)
	require.NoError(t, state.Answer(t.Context(), store, "a", questions[0].ID, "max", "servus"))
	out, _, err := opened(t, store, call)
	require.NoError(t, err)
	assert.Equal(t, "bye", out)
	assert.Len(t, *g.asked, 3)
}

func TestPiecesOfAStreamReachWatchers(t *testing.T) {
	var text strings.Builder
	var names []string
	watch := func(ctx context.Context) context.Context {
		return live.Watch(ctx, func(d live.Delta) {
			switch d.Part {
			case live.PartText:
				text.WriteString(d.Text + "|")
			case live.PartToolCall:
				names = append(names, fmt.Sprint(d.Name, d.Index))
			default:
			}
		})
	}
	call := ways["stream"](t, newGuide(), new(greet))
	_, _, err := opened(t, memstore.New(), func(ctx context.Context) (string, error) { return call(watch(ctx)) })
	require.NoError(t, err)
	assert.Equal(t, "h|e|l|l|o|h|e|l|l|o|b|y|e|", text.String())
	assert.Equal(t, []string{"greet0", "greet1", "greet0", "greet1"}, names)
}

func TestOutsideARunAGraphIsAsItWas(t *testing.T) {
	out, err := ways["generate"](t, newGuide(), new(greet))(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "bye", out)
}

// killable runs the agent in a directory. Its model hangs on the first request for its second turn.
func killable(args ...string) error {
	dir, ledger, mode := args[0], args[1], args[2]
	t := new(fatal)
	g, greeter := newGuide(), new(greet)
	g.fail = func(int) error {
		if err := appendLine(ledger, (*g.asked)[len(*g.asked)-1]); err != nil {
			return err
		}
		if mode == "hang" && len(*g.asked) == 2 {
			fmt.Println("hangs")
			select {}
		}
		return nil
	}
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	out, _, err := opened(t, store, inAgent(ways["generate"](t, g, greeter)))
	if err != nil {
		return err
	}
	for _, name := range greeter.greeted {
		if err := appendLine(ledger, name); err != nil {
			return err
		}
	}
	fmt.Println(out)
	return nil
}

// fatal ends the process where a test would fail.
type fatal struct{ testing.TB }

func (*fatal) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*fatal) FailNow()                          { panic("failed") }
func (*fatal) Helper()                           {}

func TestKilledProcessWithAReactAgentIsResumedByTheNext(t *testing.T) {
	dir, ledger := t.TempDir(), t.TempDir()+"/ledger"
	p := process.Start(t, process.Command(t, "react", dir, ledger, "hang"))
	p.Await("hangs")
	p.Kill()
	assert.Equal(t, []string{"turn 1", "turn 2"}, lines(t, ledger))
	p = process.Start(t, process.Command(t, "react", dir, ledger, "go on"))
	p.Await("bye")
	require.Zero(t, p.Wait())
	assert.Equal(t, []string{"turn 1", "turn 2", "turn 2", "turn 3", "max 1 0", "max 1 1"}, sortedTail(lines(t, ledger), 4),
		"only the turn that was cut off is asked again")
}

// sortedTail sorts the elements after the first n, since their order varies: tools are executed
// concurrently.
func sortedTail(list []string, n int) []string {
	return append(list[:n:n], sorted(list[n:])...)
}
