package supportdesk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/streamer"
)

// A supervisor restarts the desk each time it has ended, like systemd with Restart=always.
type supervisor struct {
	t       *testing.T
	outside *outside
	home    string // contains the link desk, which is started, and the builds that it may point to
	runs    string // the directory of the runs
	url     string
	done    chan struct{} // closed when no further process will be started

	mu      sync.Mutex
	process *os.Process
	serving int           // number of processes that have become ready so far
	changed chan struct{} // closed when serving changes
	ending  bool
	codes   []int // exit codes of the processes; -1 if killed
}

// supervise starts the desk, with the build desk-1.
func supervise(t *testing.T, o *outside) *supervisor {
	t.Helper()
	free, err := ports.Free(1)
	require.NoError(t, err)
	s := &supervisor{
		t: t, outside: o, home: t.TempDir(), runs: t.TempDir(), url: fmt.Sprintf("http://127.0.0.1:%d/", free[0]),
		done: make(chan struct{}), changed: make(chan struct{}),
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, build := range []string{"desk-1", "desk-2", "desk-bad"} {
		require.NoError(t, os.Symlink(self, filepath.Join(s.home, build)))
	}
	require.NoError(t, os.Symlink("desk-1", filepath.Join(s.home, "desk")))
	go func() {
		defer close(s.done)
		for s.runOnce() {
		}
	}()
	t.Cleanup(s.stop)
	s.await(1)
	return s
}

// runOnce runs one process until it ends, and reports whether another one must be started.
func (s *supervisor) runOnce() bool {
	cmd := process.Command(s.t, "desk", "-dir", s.runs, "-addr", s.url[len("http://"):len(s.url)-1], "-grace", "100ms", "-log-level", "error")
	cmd.Path = filepath.Join(s.home, "desk")
	cmd.Args[0] = cmd.Path
	cmd.Env = append(cmd.Env, outsideVariable+"="+s.outside.server.URL)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if !assert.NoError(s.t, err) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	if !assert.NoError(s.t, cmd.Start()) {
		return false
	}
	s.process = cmd.Process
	s.mu.Unlock()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			s.mu.Lock()
			s.serving++
			close(s.changed)
			s.changed = make(chan struct{})
			s.mu.Unlock()
		}
	}
	_ = cmd.Wait()
	s.mu.Lock()
	s.codes = append(s.codes, cmd.ProcessState.ExitCode())
	return !s.ending
}

// await waits until n processes have become ready, and returns the number of those that have.
func (s *supervisor) await(n int) int {
	for {
		s.mu.Lock()
		serving, changed := s.serving, s.changed
		s.mu.Unlock()
		if serving >= n {
			return serving
		}
		select {
		case <-changed:
		case <-s.done:
			assert.Fail(s.t, "the supervisor has stopped")
			return n
		case <-s.t.Context().Done():
			return n
		}
	}
}

// kill kills the process, and waits until the next one is ready.
func (s *supervisor) kill() {
	s.mu.Lock()
	serving := s.serving
	err := s.process.Kill()
	s.mu.Unlock()
	require.NoError(s.t, err)
	s.await(serving + 1)
}

// deploy switches to another build with a single command, and waits until a process of that build
// is ready.
func (s *supervisor) deploy(build string) {
	s.t.Helper()
	s.mu.Lock()
	serving, pid := s.serving, s.process.Pid
	s.mu.Unlock()
	command := fmt.Sprintf("ln -sfn %s desk && kill -TERM %d", build, pid)
	cmd := exec.CommandContext(s.t.Context(), "sh", "-c", command)
	cmd.Dir = s.home
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	s.await(serving + 1)
}

// stop ends the process with SIGTERM. No other process is started after that.
func (s *supervisor) stop() {
	s.mu.Lock()
	s.ending = true
	if s.process != nil {
		_ = s.process.Signal(syscall.SIGTERM)
	}
	s.mu.Unlock()
	<-s.done
}

// client returns a client of the desk.
func (s *supervisor) client() *streamer.Client { return &streamer.Client{URL: s.url} }

// try repeats a request until the desk has answered it. After a connection has failed, it waits for
// the next process.
func (s *supervisor) try(ctx context.Context, request func() error) error {
	for n := 1; ; {
		serving := s.await(n)
		err := request()
		var status *streamer.StatusError
		if err == nil || ctx.Err() != nil || errors.As(err, &status) && !errors.Is(err, streamer.ErrUnavailable) {
			return err
		}
		n = serving + 1
	}
}
