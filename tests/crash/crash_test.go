package crash

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// kills is the number of processes to kill.
var kills = flag.Int("kills", 0, "number of processes to kill; 0 for the default of each test, or 20 with -short")

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"calls": work, "saga": bookAndUndo, "group": collect})
}

type order struct {
	N int `json:"n"`
}

// work is the program that is killed. It begins or resumes the run, and logs the attempts of its
// tools and the outcomes that its agents received.
func work(args ...string) error {
	dir := args[0]
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	// On a slow machine, the process may be killed five times in a row before a call
	// ends.
	st, err := state.Open(context.Background(), store, "run-1", state.WithMaxLosses(core.Unlimited))
	if err != nil {
		return err
	}
	say := logIn(dir)
	result, err := program(say).Call(st.Context(context.Background()), order{1})
	if err := errors.Join(err, st.Close()); err != nil {
		return err
	}
	return say("result %d", result)
}

// logIn returns a function that appends a line to the log in the directory. Logged lines are kept
// even if the process is killed.
func logIn(dir string) func(format string, args ...any) error {
	return func(format string, args ...any) error {
		f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f, format+"\n", args...)
		return errors.Join(err, f.Close())
	}
}

// logged returns the lines of the log.
func logged(t *testing.T, dir string) []string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(log)), "\n")
}

const maxAttempts = 3 // attempts of a tool, not counting those that a kill ended

// program calls tools sequentially, repeatedly, in a group, from nested agents, and with retries,
// so that the process can be killed in many different states.
func program(say func(string, ...any) error) actors.Agent[order, int] {
	tool := decorators.Tool("tool", "", func(ctx context.Context, in order) (int, error) {
		s := core.ScopeOf(ctx)
		if err := say("run %s", attemptOf(ctx)); err != nil {
			return 0, err
		}
		if in.N%3 == 0 && s.Attempt() == 0 {
			return 0, core.Retryable(errors.New("not yet"))
		}
		return in.N, state.Put(ctx, s.Address().String(), in.N)
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: maxAttempts, InitialDelay: 3 * time.Millisecond, MaxDelay: 3 * time.Millisecond}))
	// add adds the output of a call to n, or returns its error.
	add := func(n *int, out int, err error) error {
		if err != nil {
			return err
		}
		*n += out
		return nil
	}
	inner := decorators.Agent("inner", "", func(ctx context.Context, in order) (int, error) {
		sum := 0
		for i := range 3 {
			out, err := tool.Call(ctx, order{in.N + i})
			if err := add(&sum, out, err); err != nil {
				return 0, err
			}
			address := core.ScopeOf(ctx).Address().String() + "/tool"
			if i > 0 {
				address += "#" + strconv.Itoa(i+1)
			}
			if err := say("ack %s", address); err != nil {
				return 0, err
			}
		}
		return sum, nil
	})
	return decorators.Agent("outer", "", func(ctx context.Context, in order) (int, error) {
		sum := 0
		for i := range 3 {
			out, err := inner.Call(ctx, order{10 * i})
			if err := add(&sum, out, err); err != nil {
				return 0, err
			}
		}
		outs, err := actors.Map(ctx, actors.Group{Name: "g", Workers: 2}, inner, []order{{100}, {200}, {300}})
		if err != nil {
			return 0, err
		}
		for _, out := range outs {
			sum += out
		}
		now, err := core.Step(ctx, "seal", func(context.Context) (int, error) { return 1000, nil })
		return sum + now, err
	})
}

// expected is the result of program when nothing is killed.
const expected = 3*(0+10+20) + 9 + 3*(100+200+300) + 9 + 1000

func TestKilledRunEndsWithNothingLostOrRepeated(t *testing.T) {
	campaign(t, "calls", 300, check)
}

// campaign kills processes of the program, and checks each run after it has ended. The flag -kills
// sets the number of kills, which defaults to most or, with -short, to 20.
func campaign(t *testing.T, program string, most int, check func(t *testing.T, dir string)) {
	done, wanted := 0, *kills
	switch {
	case wanted > 0:
	case testing.Short():
		wanted = 20
	default:
		wanted = most
	}
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	for done < wanted {
		dir := t.TempDir()
		killed := 0
		for {
			after := time.Duration(rng.Int64N(int64(45 * time.Millisecond)))
			if killed > 40 {
				after = time.Hour // let the process end
			}
			if !runAndKill(t, program, dir, after) {
				break
			}
			killed++
		}
		done += killed
		check(t, dir)
	}
	t.Logf("%d processes were killed", done)
}

// runAndKill starts a process and kills it after the given time. It reports whether the process was
// killed before it ended.
func runAndKill(t *testing.T, program, dir string, after time.Duration) bool {
	t.Helper()
	cmd := process.Command(t, program, dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	if process.Killed(err) {
		return true
	}
	require.NoError(t, err, stderr.String())
	return false
}

// attemptOf returns the address and number of the attempt that ctx belongs to.
func attemptOf(ctx context.Context) string {
	s := core.ScopeOf(ctx)
	return fmt.Sprintf("%s:%d", s.Address(), s.Attempt())
}

// checkAttempts compares the logged attempts with the recorded ones. Each attempt must have been
// made exactly once, unless its process ended during the attempt.
func checkAttempts(t *testing.T, found *snapshot.Snapshot, made map[string]int) {
	t.Helper()
	begun := make(map[string]int)
	for i := range found.Records {
		r := &found.Records[i]
		if r.Status != record.StatusStarted || !r.Kind.IsCall() {
			continue
		}
		attempt := fmt.Sprintf("%s:%d", r.Address, r.Attempt)
		if begun[attempt]++; begun[attempt] > 1 {
			assert.Equal(t, record.ReasonLost, r.Reason, "%s began again although its process had not ended", attempt)
		}
	}
	for attempt, n := range made {
		assert.LessOrEqual(t, n, begun[attempt], "%s was made more often than it was recorded as started", attempt)
	}
}

// check compares the log, to which all processes wrote, with the stored run.
func check(t *testing.T, dir string) {
	t.Helper()
	acked, made := make(map[string]bool), make(map[string]int)
	results := 0
	for _, line := range logged(t, dir) {
		words := strings.Fields(line)
		switch words[0] {
		case "run":
			address, _, _ := strings.Cut(words[1], ":")
			assert.False(t, acked[address], "%s ran again after its outcome was known", address)
			made[words[1]]++
		case "ack":
			acked[words[1]] = true
		case "result":
			results++
			assert.Equal(t, strconv.Itoa(expected), words[1])
		}
	}
	assert.Positive(t, results, "if a process is killed after the end of the run, the next one replays the run")

	store, err := filestore.New(dir)
	require.NoError(t, err)
	found := testkit.LoadRun(t, store, "run-1")
	assert.Equal(t, snapshot.StatusCompleted, found.Status)
	checkAttempts(t, found, made)
	completed := make(map[string]int)
	for i := range found.Records {
		r := &found.Records[i]
		assert.Equal(t, uint64(i+1), r.Seq)
		assert.Less(t, r.Attempt, maxAttempts)
		if r.Status == record.StatusCompleted && r.Kind.IsCall() {
			completed[r.Address.String()]++
			assert.Equal(t, 1, completed[r.Address.String()], "%s completed twice", r.Address)
		}
	}
	for address := range acked {
		assert.Equal(t, 1, completed[address], "%s was acknowledged, but its record is missing", address)
	}
}
