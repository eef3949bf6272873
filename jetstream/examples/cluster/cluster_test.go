package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRunsOutliveEveryProcess: of the processes that it prints, a worker and the
// server are killed while runs are under way.
func TestRunsOutliveEveryProcess(t *testing.T) {
	program := filepath.Join(t.TempDir(), "cluster")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(program, "-dir", t.TempDir(), "-addr", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
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
		require.Eventually(t, func() bool {
			return status(t, "POST", url+"api/runs", body) == http.StatusOK
		}, 3*time.Minute, 100*time.Millisecond)
	}
	require.NoError(t, syscall.Kill(pids["worker 1"], syscall.SIGKILL))
	require.NoError(t, syscall.Kill(pids["server"], syscall.SIGKILL))
	for n := range 4 {
		require.Eventually(t, func() bool {
			resp, err := http.Get(fmt.Sprintf("%sapi/runs/count-%d/result", url, n))
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return err == nil && strings.Contains(string(body), "4 by worker")
		}, 3*time.Minute, 100*time.Millisecond)
	}
}

func status(t *testing.T, method, url, body string) int {
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
