package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// turns is the number of requests that each agent sends to its model.
const turns = 10

// serveAgents serves the agents in a directory until its standard input is closed. Its arguments
// are the directory and the URL of the model. It prints a line for each answer from the model, and
// for each run that has ended.
func serveAgents(args ...string) error {
	r, err := newAgents(args[0], args[1], func(e runner.Notice) {
		if e.Type == runner.NoticeClosed {
			fmt.Println("ended", e.RunID, e.Status)
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	return r.Serve(ctx)
}

// newAgents returns a runner with the agent, which executes 50 runs at a time.
func newAgents(dir, model string, observe func(runner.Notice)) (*runner.Runner, error) {
	store, err := filestore.New(dir)
	if err != nil {
		return nil, err
	}
	r, err := runner.New(store, runner.Options{Limit: 50, SweepEvery: 100 * time.Millisecond, Observe: observe})
	if err != nil {
		return nil, err
	}
	ledger, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	note := func(ctx context.Context, name string) (string, error) {
		s := core.ScopeOf(ctx)
		_, err := fmt.Fprintf(ledger, "%s %s %d\n", name, s.Address(), s.Attempt()) // a single write, so that no line is torn
		return name, err
	}
	again := actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond})
	llm := decorators.LLM("model", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		answer, err := ask(ctx, model, req)
		if err == nil {
			fmt.Println("paid")
		}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, Text: answer}}, err
	}, again)
	tool := decorators.Tool("look", "", func(ctx context.Context, in Work) (string, error) { return note(ctx, in.Name) }, again)
	runner.Register(r, decorators.Agent("agent", "", func(ctx context.Context, in Work) (int, error) {
		for n := range in.Steps {
			question := actors.User(fmt.Sprint(in.Name, "/", n))
			if _, err := llm.Call(ctx, actors.Request{Messages: []actors.Message{question}}); err != nil {
				return 0, err
			}
			if _, err := core.Step(ctx, "note", func(ctx context.Context) (string, error) { return note(ctx, in.Name) }); err != nil {
				return 0, err
			}
			if _, err := tool.Call(ctx, in); err != nil {
				return 0, err
			}
		}
		return in.Steps, nil
	}))
	return r, nil
}

// ask sends the last message to the model.
func ask(ctx context.Context, model string, in actors.Request) (string, error) {
	body, err := json.Marshal(in.Messages[len(in.Messages)-1].Text)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, model, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", core.Retryable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", core.Retryable(fmt.Errorf("the model returns status %s", resp.Status))
	}
	answer, err := io.ReadAll(resp.Body)
	return string(answer), err
}

// model is a server that fails at random and counts its answers.
type model struct {
	mu   sync.Mutex
	rng  *rand.Rand
	paid map[string]int // by agent and turn
}

func (m *model) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var question string
	if err := json.NewDecoder(req.Body).Decode(&question); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	fails := m.rng.IntN(5) == 0
	if !fails {
		m.paid[question]++
	}
	m.mu.Unlock()
	if fails {
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "the answer to "+question)
}

// TestKilledAgentsLoseAndRepeatNothing repeatedly kills the process of many agents, each time after
// a different number of answers from their model. No run may fail or be set aside because of the
// kills, no call with an outcome may be repeated, and each kill may make an agent pay for at most
// one answer again.
func TestKilledAgentsLoseAndRepeatNothing(t *testing.T) {
	agents, kills := of(t, "REPRISE_AGENTS", 20), of(t, "REPRISE_KILLS", 6)
	dir := t.TempDir()
	m := &model{rng: rand.New(rand.NewPCG(7, uint64(agents))), paid: make(map[string]int)}
	server := httptest.NewServer(m)
	defer server.Close()
	r, err := newAgents(dir, server.URL, nil) // this runner is used only to start runs
	require.NoError(t, err)
	for i := range agents {
		name := fmt.Sprint("agent-", i)
		_, err := r.Start(t.Context(), "agent", name, Work{name, turns}, runner.StartOptions{})
		require.NoError(t, err)
	}
	rng := rand.New(rand.NewPCG(1, uint64(agents)))
	for range kills {
		// All processes together get at most half of the answers, so that each process gets some.
		answers := 1 + rng.IntN(max(agents*turns/2/kills, 1))
		service := process.Start(t, process.Command(t, "agents", dir, server.URL))
		for range answers {
			service.Await("paid")
		}
		service.Kill()
	}
	service := process.Start(t, process.Command(t, "agents", dir, server.URL))
	for i := 0; i < agents; {
		info, err := r.Info(t.Context(), fmt.Sprint("agent-", i))
		require.NoError(t, err)
		require.NotEqual(t, record.InterruptCrashLoop, info.Stop.Reason, "%s is set aside", info.RunID)
		require.NotEqual(t, snapshot.StatusFailed, info.Status, info.RunID)
		if info.Status == snapshot.StatusCompleted {
			i++
			continue
		}
		for ended := false; !ended; {
			line, ok := service.Line()
			require.True(t, ok, "the service ended")
			ended = strings.HasPrefix(line, "ended ")
		}
	}
	service.Stop()

	effects, again, losses := readLedger(t, dir), 0, 0
	for i := range agents {
		name := fmt.Sprint("agent-", i)
		out, err := r.Result(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, turns, out)
		run, err := r.Store().Load(t.Context(), name)
		require.NoError(t, err)
		lost := checkAgent(t, run, effects)
		paid := 0
		for n := range turns {
			paid += m.paid[fmt.Sprint(name, "/", n)] - 1
		}
		assert.LessOrEqual(t, paid, lost, "%s: answers paid again, calls lost", name)
		again, losses = again+paid, losses+lost
	}
	t.Logf("%d agents of %d turns, %d kills: %d calls of the model were lost, %d answers paid again", agents, turns, kills, losses, again)
}

// readLedger returns the number of effects of each attempt, by call, which is a run and an address.
func readLedger(t *testing.T, dir string) map[string]map[int]int {
	t.Helper()
	effects := make(map[string]map[int]int)
	data, err := os.ReadFile(filepath.Join(dir, "ledger"))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		require.Len(t, fields, 3, line)
		attempt, err := strconv.Atoi(fields[2])
		require.NoError(t, err)
		call := fields[0] + " " + fields[1]
		if effects[call] == nil {
			effects[call] = make(map[int]int)
		}
		effects[call][attempt]++
	}
	return effects
}

// checkAgent checks that the run has no record of a call after the call's outcome, and that each
// attempt had at most one effect for each time it began. It returns the number of lost calls of the
// model.
func checkAgent(t *testing.T, run *snapshot.Run, effects map[string]map[int]int) (lost int) {
	t.Helper()
	begun := make(map[string]map[int]int)
	outcomes := make(map[record.Address]bool)
	for rec, err := range run.Records() {
		require.NoError(t, err)
		if !rec.Kind.IsCall() {
			continue
		}
		require.False(t, outcomes[rec.Address], "%s: record %d comes after the outcome of %s", run.RunID, rec.Seq, rec.Address)
		outcomes[rec.Address] = rec.IsOutcome()
		if rec.Status != record.StatusStarted {
			continue
		}
		call := run.RunID + " " + rec.Address.String()
		if begun[call] == nil {
			begun[call] = make(map[int]int)
		}
		begun[call][rec.Attempt]++
		if rec.Reason == record.ReasonLost && rec.Kind == record.KindLLM {
			lost++
		}
	}
	for call, times := range begun {
		for attempt, n := range effects[call] {
			assert.LessOrEqual(t, n, times[attempt], "%s: attempt %d had more effects than it began", call, attempt)
		}
	}
	require.Len(t, outcomes, 1+3*turns)
	return lost
}
