package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres/internal/pgserver/pgtest"
	"github.com/reprise-go/reprise/internal/testkit/process"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"cluster": func(...string) error {
		main()
		return nil
	}})
}

// TestRunsOutliveAWorker kills one of the processes that the program lists in its output, while
// runs are in progress.
func TestRunsOutliveAWorker(t *testing.T) {
	database := pgtest.Start(t)
	cmd := process.Command(t, "cluster")
	cmd.Env = append(cmd.Env, "DATABASE_URL="+database)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the program ends its processes on this signal
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	pids, urls := map[string]int{}, map[string]string{}
	lines := bufio.NewReader(stdout)
	for len(pids) < 3 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if name, rest, ok := strings.Cut(line, "  kill -9 "); ok {
			var pid int
			var url string
			_, err := fmt.Sscan(rest, &pid, &url)
			require.NoError(t, err)
			pids[name], urls[name] = pid, url
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	for n := range 6 {
		body := fmt.Sprintf(`{"program": "count", "run_id": "count-%d", "input": {"to": 3}}`, n)
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			answer, code := ask(t, http.MethodPost, urls["worker 2"]+"api/runs", body)
			assert.Contains(t, []int{http.StatusOK, http.StatusCreated}, code, answer)
		}, time.Minute, 100*time.Millisecond)
	}
	require.NoError(t, syscall.Kill(pids["worker 1"], syscall.SIGKILL))
	for n := range 6 {
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			answer, _ := ask(t, http.MethodGet, fmt.Sprintf("%sapi/runs/count-%d/result", urls["worker 3"], n), "")
			assert.Contains(t, answer, "3 by worker")
		}, 2*time.Minute, 100*time.Millisecond)
	}
}

// ask sends a request, and returns the response's body and status.
func ask(t *assert.CollectT, method, url, body string) (string, int) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(answer), resp.StatusCode
}
