package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream/service"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/streamer"
)

func Example() {
	_, _, _, err := service.Open(context.Background(), "redis://127.0.0.1:6379")
	fmt.Println(err)
	// Output: the store: its URL does not name NATS servers; want one such as nats://a:4222,nats://b:4222
}

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"server": serveNATS, "agents": func(...string) error {
		os.Stderr = os.Stdout // tests read the standard output
		service.Main(register)
		return nil
	}})
}

// serveNATS runs a server until its standard input ends.
func serveNATS(args ...string) error {
	port, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "one", Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true, JetStream: true, SyncAlways: true, StoreDir: args[1],
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		return errors.New("the server does not accept connections")
	}
	fmt.Println("ready")
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

type task struct {
	Go string `json:"go"` // the tool ends when this file exists
}

// register registers an agent whose tool emits some text and then waits for a file.
func register(r *runner.Runner) error {
	wait := decorators.Tool("wait", "", func(ctx context.Context, in task) (string, error) {
		live.Emit(ctx, live.Delta{Part: live.PartText, Text: "so far"})
		fmt.Println("waiting")
		for {
			if _, err := os.Stat(in.Go); err == nil {
				return fmt.Sprint(os.Getpid()), nil
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	})
	runner.Register(r, decorators.Agent("work", "", func(ctx context.Context, in task) (string, error) {
		return wait.Call(ctx, in)
	}))
	return nil
}

// A worker is a process that executes the runs of a store.
type worker struct {
	*process.Process
	cmd *exec.Cmd
	url string
}

func begun(t *testing.T, store string) *worker {
	t.Helper()
	cmd := process.Command(t, "agents", "-store", store, "-addr", "127.0.0.1:0", "-grace", "10ms")
	w := &worker{process.Start(t, cmd), cmd, ""}
	for {
		line, ok := w.Line()
		require.True(t, ok, "it has ended")
		if _, rest, ok := strings.Cut(line, "runs of the store are at "); ok {
			w.url, _, _ = strings.Cut(rest, " ")
			return w
		}
	}
}

func startServer(t *testing.T) string {
	t.Helper()
	free, err := ports.Free(1)
	require.NoError(t, err)
	process.Start(t, process.Command(t, "server", strconv.Itoa(free[0]), t.TempDir())).Await("ready")
	return fmt.Sprintf("nats://127.0.0.1:%d?store=agents&lease=1s", free[0])
}

// Two processes share a store on a server. A run of the first can be seen through the second, and
// continues there when the first is killed.
func TestServicesOnAServerTakeOverFromEachOther(t *testing.T) {
	store := startServer(t)
	first := begun(t, store)
	mayEnd := filepath.Join(t.TempDir(), "go")
	input, err := json.Marshal(task{mayEnd})
	require.NoError(t, err)
	_, _, err = (&streamer.Client{URL: first.url}).Start(t.Context(), streamer.Start{Program: "work", RunID: "w", Input: input})
	require.NoError(t, err)
	awaitLine(t, first, "waiting")
	_, _, err = (&streamer.Client{URL: first.url}).Start(t.Context(), streamer.Start{Program: "work", RunID: "later", Input: input, At: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	second := begun(t, store)
	require.Eventually(t, func() bool { // the second process also counts the runs of the first
		response, err := http.Get(second.url + "metrics")
		if err != nil {
			return false
		}
		body, err := io.ReadAll(response.Body)
		return err == nil && response.Body.Close() == nil && strings.Contains(string(body), "\nreprise_runs_parked 1\n") && strings.Contains(string(body), "\nreprise_runs_queued 0\n")
	}, time.Minute, 20*time.Millisecond)
	client := &streamer.Client{URL: second.url}
	state, _, err := client.State(t.Context(), "w")
	require.NoError(t, err)
	assert.Equal(t, "running", state.Status)

	stream := &streamer.Client{URL: second.url, Run: "w", Deltas: true, UntilEnd: true}
	var names []string
	for e, err := range stream.Events(t.Context()) {
		require.NoError(t, err)
		switch e.Name {
		case "elsewhere": // the first process executes the run
			assert.Contains(t, string(e.Data), "not available here")
			first.Kill()
		case "delta":
			d, err := e.Delta()
			require.NoError(t, err)
			if d.Text == "so far" {
				require.NoError(t, os.WriteFile(mayEnd, nil, 0o600))
			}
		}
		if n := len(names); n == 0 || names[n-1] != e.Name {
			names = append(names, e.Name)
		}
	}
	assert.Contains(t, names, "elsewhere")
	assert.Contains(t, names, "delta", "of the second process")
	result, err := client.Result(t.Context(), "w")
	require.NoError(t, err)
	assert.JSONEq(t, fmt.Sprintf("%q", fmt.Sprint(second.cmd.Process.Pid)), string(result.Output))
	require.NoError(t, second.cmd.Process.Signal(syscall.SIGTERM))
	assert.Zero(t, second.Wait())
}

func awaitLine(t *testing.T, w *worker, text string) {
	t.Helper()
	for {
		line, ok := w.Line()
		require.True(t, ok, "it has ended")
		if line == text {
			return
		}
	}
}

func TestWhatIsNotAStoreIsRefused(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://db/app":                          "does not name NATS servers",
		"nats://app:secret@%zz:4222":                 "does not name NATS servers",
		"nats://app:secret@127.0.0.1:4222,127.0.0.1": "does not name NATS servers",
		"nats://127.0.0.1:1?replicas=many":           `replicas is "many"`,
		"nats://127.0.0.1:1?replicas=0":              `replicas is "0"`,
		"nats://127.0.0.1:1?lease=10":                `lease is "10"`,
		"nats://127.0.0.1:1?name=x":                  `unknown parameter "name" in its URL; want store, replicas, lease, creds, domain or api_prefix`,
		"nats://127.0.0.1:1?creds=/none":             "/none",
		"nats://app:secret@127.0.0.1:1":              "no servers available",
	} {
		_, _, _, err := service.Open(t.Context(), url)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
	}
	store := startServer(t)
	_, _, _, err := service.Open(t.Context(), store+"&replicas=3")
	require.ErrorContains(t, err, "replicas")
	_, _, _, err = service.Open(t.Context(), store+"&domain=nowhere")
	require.ErrorContains(t, err, `no JetStream for the domain "nowhere"`)
	_, _, _, err = service.Open(t.Context(), store+"&api_prefix=JS.nowhere.API")
	require.ErrorContains(t, err, "no JetStream at JS.nowhere.API.>")
}
