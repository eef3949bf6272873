package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/internal/testkit/process"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"cluster": func(...string) error {
		main()
		return nil
	}})
}

// TestRunsOutliveEveryProcess kills a worker and the server, which are among the processes that the
// program prints, while runs are in progress.
func TestRunsOutliveEveryProcess(t *testing.T) {
	free, err := ports.Free(2) // ports that the server and the dashboard keep when they are restarted
	require.NoError(t, err)
	cmd := process.Command(t, "cluster", "-dir", t.TempDir(), "-port", strconv.Itoa(free[0]), "-addr", fmt.Sprint("127.0.0.1:", free[1]))
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it ends its processes on this signal
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	var url string
	_, err = fmt.Sscanf(line, "All runs are on %s", &url)
	require.NoError(t, err, line)
	pids := map[string]int{}
	for len(pids) < 5 {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		if name, pid, ok := strings.Cut(line, "kill -9 "); ok {
			n := 0
			_, err := fmt.Sscan(pid, &n)
			require.NoError(t, err)
			pids[strings.TrimSpace(name)] = n
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	for n := range 4 {
		body := fmt.Sprintf(`{"program": "count", "run_id": "count-%d", "input": {"to": 4}}`, n)
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			answer, code := ask(t, http.MethodPost, url+"api/runs", body)
			assert.Contains(t, []int{http.StatusCreated, http.StatusOK}, code, answer)
		}, time.Minute, 100*time.Millisecond)
	}
	require.NoError(t, syscall.Kill(pids["worker 1"], syscall.SIGKILL))
	require.NoError(t, syscall.Kill(pids["server"], syscall.SIGKILL))
	for n := range 4 {
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			answer, _ := ask(t, http.MethodGet, fmt.Sprintf("%sapi/runs/count-%d/result", url, n), "")
			assert.Contains(t, answer, "4 by worker")
		}, 2*time.Minute, 100*time.Millisecond)
	}
}

// ask sends a request and returns the answer and its status.
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
