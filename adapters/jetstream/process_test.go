package jetstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// The tests spend most of their time waiting, so more of them run at the same time than there are
// processors, unless the flag -parallel is given.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4")
	process.Main(tests{m}, process.Programs{"work": work})
}

// tests creates a directory for the server program, runs the tests, and then removes the directory.
type tests struct{ *testing.M }

func (t tests) Run() int {
	dir, err := os.MkdirTemp("", "server-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	serverProgram = sync.OnceValues(func() (string, error) {
		program := filepath.Join(dir, "server")
		if out, err := exec.Command("go", "build", "-o", program, "./testdata/server").CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build ./testdata/server: %w: %s", err, out)
		}
		return program, nil
	})
	return t.M.Run()
}

// serverProgram builds the server program once, and returns its path.
var serverProgram func() (string, error)

// serverCommand returns a command that runs a server until its standard input ends.
func serverCommand(t *testing.T, set serverSettings) *exec.Cmd {
	t.Helper()
	program, err := serverProgram()
	require.NoError(t, err)
	encoded, err := json.Marshal(set)
	require.NoError(t, err)
	return exec.CommandContext(t.Context(), program, string(encoded))
}

type serverSettings struct {
	Name    string
	Port    int
	Dir     string
	Cluster int      // the port for routes from other servers; 0 for no cluster
	Routes  []string // the URLs of other servers

	MaxPayload int32 // the maximum size of a message, in bytes; 0 for a server's default
}

// oneServer returns the settings of a server that can be killed and started again.
func oneServer(t *testing.T) serverSettings {
	return serverSettings{Name: "one", Port: freePorts(t, 1)[0], Dir: t.TempDir()}
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	free, err := ports.Free(n)
	require.NoError(t, err)
	return free
}

// startServer starts a server in its own process and returns its URL.
func startServer(t *testing.T, set serverSettings) (*process.Process, *exec.Cmd, string) {
	t.Helper()
	cmd := serverCommand(t, set)
	p := process.Start(t, cmd)
	line, ok := p.Line()
	require.True(t, ok)
	return p, cmd, line
}

type task struct {
	Run   string `json:"run"`
	Steps int    `json:"steps"`
}

type step struct {
	Run string `json:"run"`
	N   int    `json:"n"`
}

// work runs tasks until its standard input ends. The effect of a step is a line in the ledger,
// which the step returns. At the given point (before the effect of step 1, after it, or after its
// outcome was recorded), the process kills itself or waits until a file named "go" exists.
func work(args ...string) error {
	url, dir, point := args[0], args[1], args[2]
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	var o jetstream.Options
	if err := json.Unmarshal([]byte(args[3]), &o); err != nil {
		return err
	}
	store, err := jetstream.Open(ctx, conn, o)
	if err != nil {
		return err
	}
	queue, err := jetstream.OpenQueue(ctx, store)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for err = snapshot.ErrUnavailable; errors.Is(err, snapshot.ErrUnavailable) && ctx.Err() == nil; { // the cluster may be electing a leader
		err = serveWork(ctx, store, queue, dir, point)
	}
	return errors.Join(err, store.Close())
}

func serveWork(ctx context.Context, store *jetstream.Store, queue *jetstream.Queue, dir, point string) error {
	r, err := runner.New(store, runner.Options{
		Queue: queue, Grace: -1, MaxRestarts: 1000, SweepEvery: time.Second, ParkAfter: time.Millisecond,
		Observe: func(e runner.Notice) {
			if point != "quiet" {
				fmt.Println(e)
			}
			if e.Type == runner.NoticeTrouble {
				_ = appendTo(dir, "trouble", fmt.Sprintf("%s %d %s", time.Now().Format(time.TimeOnly), os.Getpid(), e))
			}
		},
	})
	if err != nil {
		return err
	}
	registerWork(r, dir, point)
	return r.Serve(ctx)
}

func registerWork(r *runner.Runner, dir, point string) {
	var lines atomic.Int64
	pass := func(at string, s step) {
		switch {
		case s.N != 1:
		case point == at:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case point == "hold "+at:
			fmt.Println("holding")
			for {
				if _, err := os.Stat(filepath.Join(dir, "go")); err == nil {
					return
				}
				<-time.After(5 * time.Millisecond)
			}
		}
	}
	note := decorators.Tool("note", "", func(_ context.Context, in step) (string, error) {
		pass("before", in)
		line := fmt.Sprintf("%s %d by %d/%d", in.Run, in.N, os.Getpid(), lines.Add(1))
		err := appendTo(dir, "ledger", line)
		pass("after", in)
		return line, err
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited}))
	pad := decorators.Tool("pad", "", func(_ context.Context, in step) (string, error) { return strings.Repeat("x", in.N*50_000), nil })
	runner.Register(r, decorators.Agent("work", "", func(ctx context.Context, in task) (string, error) {
		var all []string
		for n := range in.Steps {
			line, err := note.Call(ctx, step{in.Run, n})
			if err != nil {
				return "", err
			}
			pass("recorded", step{in.Run, n})
			all = append(all, line)
			if strings.HasPrefix(in.Run, "large") { // one large record, or several messages
				if _, err := pad.Call(ctx, step{in.Run, n}); err != nil {
					return "", err
				}
			}
			if n == 2 {
				if err := core.Sleep(ctx, 50*time.Millisecond); err != nil {
					return "", err
				}
			}
		}
		return strings.Join(all, "\n"), nil
	}))
}

func appendTo(dir, file, line string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// A site consists of a server, a ledger, and a client that starts and reads runs.
type site struct {
	t      testing.TB
	url    string
	dir    string
	conn   *nats.Conn
	client *runner.Runner
	queue  *jetstream.Queue

	options jetstream.Options // the options of the store, both in this process and in workers
}

func newSite(t testing.TB, url string, o jetstream.Options) *site {
	t.Helper()
	s := &site{t: t, url: url, dir: t.TempDir(), conn: jstest.Connect(t, url), options: o}
	store := open(t, s.conn, o)
	var err error
	s.queue, err = jetstream.OpenQueue(t.Context(), store)
	require.NoError(t, err)
	s.client, err = runner.New(store, runner.Options{Queue: s.queue})
	require.NoError(t, err)
	registerWork(s.client, s.dir, "")
	return s
}

// worker starts a worker, which connects to url if one is given.
func (s *site) worker(point string, url ...string) *process.Process {
	s.t.Helper()
	p := process.Start(s.t, s.workerCommand(point, url...))
	p.Await("ready")
	return p
}

func (s *site) workerCommand(point string, url ...string) *exec.Cmd {
	o, err := json.Marshal(s.options)
	require.NoError(s.t, err)
	return process.Command(s.t, "work", append(url, s.url)[0], s.dir, point, string(o))
}

// start starts a run. If no server answers, start tries again; this does not create another run.
func (s *site) start(id string, steps int) {
	s.t.Helper()
	s.patiently("start run "+id, func(ctx context.Context) error {
		_, err := s.client.Start(ctx, "work", id, task{id, steps}, runner.StartOptions{})
		return err
	})
}

// patiently repeats do until a server answers.
func (s *site) patiently(what string, do func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var last error
	for {
		err := do(ctx)
		if err == nil {
			return
		}
		require.ErrorIs(s.t, err, snapshot.ErrUnavailable, "%s; before: %v", what, last)
		last = err
	}
}

// ended waits until the run has ended, and returns the lines of its steps.
func (s *site) ended(id string) []string {
	s.t.Helper()
	var result any
	s.patiently("the end of run "+id, func(ctx context.Context) error {
		for _, err := range s.client.Store().Watch(ctx, snapshot.WatchOptions{RunID: id}) {
			if err != nil {
				if ctx.Err() != nil {
					s.explain(id)
				}
				return err
			}
			if info, err := s.client.Info(ctx, id); err != nil {
				return err
			} else if info.Status == snapshot.StatusCompleted {
				break
			}
		}
		var err error
		result, err = s.client.Result(ctx, id)
		if ctx.Err() != nil {
			s.explain(id)
		}
		return err
	})
	return strings.Split(result.(string), "\n")
}

// explain logs the state of a run that has not ended, the run's jobs, and the workers' most recent
// errors.
func (s *site) explain(id string) {
	info, err := s.client.Info(s.t.Context(), id)
	s.t.Logf("run %s is %+v, %v", id, info, err)
	run, err := s.client.Store().Load(s.t.Context(), id)
	s.t.Logf("loading it returned %v", err)
	if err == nil {
		for rec, err := range run.Records() {
			s.t.Logf("%+v, %v", rec, err)
		}
	}
	page, err := s.client.Store().List(s.t.Context(), snapshot.Filter{})
	i := slices.IndexFunc(page.Runs, func(i snapshot.Info) bool { return i.RunID == id })
	s.t.Logf("the list has %d runs, and the run at index %d, %v", len(page.Runs), i, err)
	if i >= 0 {
		s.t.Logf("the list shows it as %+v", page.Runs[i])
	}
	trouble, err := os.ReadFile(filepath.Join(s.dir, "trouble"))
	s.t.Logf("workers: %s, %v", trouble[max(0, len(trouble)-20_000):], err)
	js, err := njs.New(s.conn)
	require.NoError(s.t, err)
	stream, err := js.Stream(s.t.Context(), "RQ_reprise")
	require.NoError(s.t, err)
	for _, subject := range []string{"rq.reprise.j.0.work.1." + id, "rq.reprise.w." + id} {
		msg, err := stream.GetLastMsgForSubject(s.t.Context(), subject)
		s.t.Logf("the last message on %s is %+v, %v", subject, msg, err)
	}
	for consumer := range stream.ListConsumers(s.t.Context()).Info() {
		s.t.Logf("consumer %+v", *consumer)
	}
}

func (s *site) ledger() []string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "ledger"))
	require.NoError(s.t, err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// check compares the outcomes of a run with the ledger: no step with an outcome may have run again.
// As an exception, up to late steps may have a line after the line of their outcome, written by a
// process that was stopped in the middle of the effect.
func (s *site) check(id string, steps, late int) {
	s.t.Helper()
	outcomes := s.ended(id)
	require.Len(s.t, outcomes, steps)
	last := map[string]string{}
	seen := map[string]bool{}
	for _, line := range s.ledger() {
		if what, _, _ := strings.Cut(line, " by "); strings.HasPrefix(what, id+" ") {
			last[what], seen[line] = line, true
		}
	}
	wrong := 0
	for n, outcome := range outcomes {
		assert.True(s.t, seen[outcome], "the outcome %s is not in the ledger", outcome)
		if last[fmt.Sprintf("%s %d", id, n)] != outcome {
			wrong++
		}
	}
	assert.LessOrEqual(s.t, wrong, late, "run %s: steps with an outcome ran again", id)
	s.checkHistory(id)
}

// checkHistory checks the messages of a run: no record may be missing, and each generation must
// have been written by one process.
func (s *site) checkHistory(id string) {
	s.t.Helper()
	sessions := map[uint64]string{}
	var generation, last uint64
	closed := false
	for seq := uint64(1); ; {
		msg, ok := s.next("rp.reprise.r."+id, seq, closed)
		if !ok {
			return
		}
		seq = msg.Sequence + 1
		h := msg.Header
		closed = h.Get("Rp-Kind") == "set"
		number := func(name string) uint64 {
			n, err := strconv.ParseUint(h.Get(name), 10, 64)
			require.NoError(s.t, err)
			return n
		}
		now := number("Rp-Generation")
		switch kind := h.Get("Rp-Kind"); kind {
		case "open":
			require.Equal(s.t, generation+1, now, "run %s: message %d", id, seq)
			sessions[now] = h.Get("Rp-Session")
		case "records":
			require.Equal(s.t, sessions[now], h.Get("Rp-Session"), "run %s: message %d was written by another process", id, seq)
		default:
			require.Equal(s.t, generation, now, "run %s: message %d", id, seq)
		}
		generation = now
		info, _ := strconv.Atoi(h.Get("Rp-Info"))
		records := msg.Data[info:]
		if ref := h.Get("Rp-Artifact"); ref != "" { // the records were too large for a message
			s.patiently("read artifact "+ref, func(ctx context.Context) (err error) {
				records, err = s.client.Store().Get(ctx, ref)
				return err
			})
		}
		for rec, err := range snapshot.DecodeRecords(records) {
			require.NoError(s.t, err)
			require.Equal(s.t, last+1, rec.Seq, "run %s: message %d", id, seq)
			last = rec.Seq
		}
		require.Equal(s.t, last, number("Rp-Last"), "run %s: message %d", id, seq)
	}
}

// next returns the next message on a subject. It waits until the servers answer. If end is true,
// there may be no next message.
func (s *site) next(subject string, seq uint64, end bool) (msg *njs.RawStreamMsg, ok bool) {
	s.t.Helper()
	js, err := njs.New(s.conn)
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, "RP_reprise")
		if err == nil {
			msg, err = stream.GetMsg(ctx, seq, njs.WithGetMsgSubject(subject))
		}
		ok = err == nil
		return ok || end && errors.Is(err, njs.ErrMsgNotFound)
	}, patience, 10*time.Millisecond)
	return msg, ok
}

func TestRunOfAKilledWorkerContinuesInAnother(t *testing.T) {
	t.Parallel()
	server := jstest.Start(t)
	for point, times := range map[string]int{"before": 1, "after": 2, "recorded": 1} {
		t.Run(point, func(t *testing.T) {
			s := newSite(t, server.URL(), jetstream.Options{Lease: lease})
			id := "killed-" + point
			first := s.worker(point)
			s.start(id, 4)
			require.Equal(t, -1, first.Wait())
			killed := time.Now()
			second := s.worker("")
			s.check(id, 4, 0)
			t.Logf("ended %v after the kill, with a lease of %v", time.Since(killed).Round(time.Millisecond), lease)
			second.Stop()
			n := 0
			for _, line := range s.ledger() {
				if strings.HasPrefix(line, id+" 1 by ") {
					n++
				}
			}
			assert.Equal(t, times, n, "how often the step had an effect")
			info, err := s.client.Info(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, uint64(2), min(info.Generation, 2))
		})
	}
}

func TestStoppedWorkerWritesNothingWhenItContinues(t *testing.T) {
	t.Parallel()
	url := jstest.Start(t).URL()
	s := newSite(t, url, jetstream.Options{Lease: lease})
	between := newProxy(t, url)
	first := s.workerCommand("hold after", between.url())
	s.checkAbsence(first, between,
		func() { require.NoError(t, first.Process.Signal(syscall.SIGSTOP)) },
		func() { require.NoError(t, first.Process.Signal(syscall.SIGCONT)) })
}

func TestWorkerThatWasCutOffWritesNothingWhenItIsBack(t *testing.T) {
	t.Parallel()
	url := jstest.Start(t).URL()
	s := newSite(t, url, jetstream.Options{Lease: lease})
	between := newProxy(t, url)
	s.checkAbsence(s.workerCommand("hold after", between.url()), between,
		func() { between.Set(true, false) },
		func() { between.Set(false, false) })
}

// checkAbsence starts a worker that disappears in the middle of a step and stays away until another
// worker has ended the run. When the first worker is back, it has the outcome of the step, but must
// neither write nor acknowledge anything. between is the proxy between this worker and the server.
func (s *site) checkAbsence(first *exec.Cmd, between *proxy, away, back func()) {
	s.t.Helper()
	p := process.Start(s.t, first)
	p.Await("ready")
	s.start("r", 4)
	p.Await("holding")
	ack := s.acknowledgement("r")
	require.Eventually(s.t, func() bool { return ack.Match(between.Sent()) }, patience, 10*time.Millisecond, "the worker renews its lease on the job")
	second := s.worker("")
	away()
	since := time.Now()
	outcomes := s.ended("r")
	s.t.Logf("ended %v after the worker was gone, with a lease of %v", time.Since(since).Round(time.Millisecond), lease)
	run, err := s.client.Store().Load(s.t.Context(), "r")
	require.NoError(s.t, err)
	before := s.ledger()

	between.Forget()
	back()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
	for { // the first worker notices the loss and continues to work
		line, ok := p.Line()
		require.True(s.t, ok)
		if strings.Contains(line, " run r ") { // the run has ended, or could not be closed
			break
		}
	}
	s.start("next", 1)
	s.check("next", 1, 0)
	now, err := s.client.Store().Load(s.t.Context(), "r")
	require.NoError(s.t, err)
	assert.Equal(s.t, run.Info, now.Info)
	assert.Equal(s.t, run.Len(), now.Len())
	assert.Equal(s.t, before, s.ledger()[:len(before)])
	assert.Len(s.t, s.ledger(), len(before)+1, "the worker has begun no further step of the run")
	assert.Equal(s.t, outcomes, s.ended("r"))
	s.check("r", 4, 0)
	second.Stop()
	p.Stop()
	sent := between.Sent()
	assert.Contains(s.t, string(sent), "PUB ", "the worker was back")
	assert.NotRegexp(s.t, ack, string(sent), "the worker must not acknowledge the job")
}

// acknowledgement returns an expression that matches what a worker publishes to acknowledge the job
// of a run, or to renew its lease on the job.
func (s *site) acknowledgement(id string) *regexp.Regexp {
	s.t.Helper()
	js, err := njs.New(s.conn)
	require.NoError(s.t, err)
	stream, err := js.Stream(s.t.Context(), "RQ_reprise")
	require.NoError(s.t, err)
	job, err := stream.GetLastMsgForSubject(s.t.Context(), "rq.reprise.j.0.work.1."+id)
	require.NoError(s.t, err)
	return regexp.MustCompile(fmt.Sprintf(`\$JS\.ACK\.(\w+\.)*RQ_reprise\.\w+\.\d+\.%d\.`, job.Sequence))
}

// Duplicate starts result in one run, both within the period in which the server detects duplicates
// and after it.
func TestDuplicateStartsAreOneRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, jstest.Start(t).URL(), jetstream.Options{Lease: longLease})
	const window = 100 * time.Millisecond
	for _, name := range []string{"RP_reprise", "RPI_reprise", "RQ_reprise"} {
		configure(t, s.conn, name, func(c *njs.StreamConfig) { c.Duplicates = window })
	}
	var starting sync.WaitGroup
	for range 5 {
		starting.Go(func() { s.start("r", 3) })
	}
	starting.Wait()
	<-time.After(2 * window)
	s.start("r", 3) // the run waits
	w := s.worker("")
	s.check("r", 3, 0)
	<-time.After(2 * window)
	for range 5 { // the run has ended
		s.start("r", 3)
	}
	_, err := s.client.Start(t.Context(), "work", "r", task{"r", 9}, runner.StartOptions{})
	require.ErrorIs(t, err, runner.ErrStarted)
	s.check("r", 3, 0)
	w.Stop()
	assert.Len(t, s.ledger(), 3)
}
