package fulldisk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// exitNoMount is the exit code of a process that is not allowed to mount a file system.
const exitNoMount = 77

const (
	runID = "run-1"
	calls = 200

	inline = 2000    // bytes of an output that is stored in the journal
	large  = 100_000 // bytes of an output that is stored as an artifact
)

// output returns the output of call n. No two calls have the same output.
func output(n, size int) string { return strings.Repeat(fmt.Sprintf("%08d", n), size/8) }

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"size of files": limitedBy(limitedFiles), "small file system": limitedBy(smallFileSystem)})
}

// limitedBy returns a program that calls work with the program's arguments, dir and size.
func limitedBy(work func(dir string, size int) error) func(...string) error {
	return func(args ...string) error {
		size, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return work(args[0], size)
	}
}

// limitedFiles calls work with a limit on the size of files, which is half the size of all outputs.
func limitedFiles(dir string, size int) error {
	signal.Ignore(syscall.SIGXFSZ) // writes must fail instead of killing the process
	room := uint64(calls / 2 * size)
	limit := syscall.Rlimit{Cur: room, Max: room}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return work(dir, size)
}

// smallFileSystem calls work in a file system with space for half of the outputs, and then again
// with more space. The file system is unmounted when the process ends.
func smallFileSystem(dir string, size int) error {
	room := calls / 2 * size
	err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, "") // mounts are visible only to this process
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", 2*room))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mount:", err)
		os.Exit(exitNoMount)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, room), 0o600); err != nil {
		return err
	}
	if err := work(dir, size); err != nil {
		return err
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", 20*room)); err != nil {
		return fmt.Errorf("remount: %w", err)
	}
	fmt.Println("room again")
	return work(dir, size)
}

type order struct {
	N int `json:"n"`
}

// work opens the run and makes all calls. It prints which calls were executed, which outcomes the
// agent received, and how the run ended.
func work(dir string, size int) error {
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	st, err := state.Open(ctx, store, runID)
	if err != nil {
		return err
	}
	write := decorators.Tool("write", "", func(_ context.Context, in order) (string, error) {
		fmt.Println("run", in.N)
		return output(in.N, size), nil
	})
	agent := decorators.Agent("agent", "", func(ctx context.Context, _ order) (int, error) {
		for n := range calls {
			if _, err := write.Call(ctx, order{n}); err != nil {
				return 0, err
			}
			fmt.Println("ack", n)
		}
		return calls, nil
	})
	_, err = agent.Call(st.Context(ctx), order{})
	fmt.Println("end", errors.Is(err, state.ErrStore), errors.Is(err, core.ErrInterrupted), err == nil)
	if why := st.Interrupted(); why != nil {
		fmt.Println("interrupted", why.Reason)
	}
	_, err = write.Call(st.Context(ctx), order{calls}) // must not be executed after the run ended
	fmt.Println("after", err == nil)
	fmt.Println("closed", st.Close() == nil)
	return nil
}

// said is the parsed output of a process.
type said struct {
	ran, acked map[string]int
	ends       []string
}

func parse(t *testing.T, out string) (s said) {
	t.Helper()
	s.ran, s.acked = make(map[string]int), make(map[string]int)
	for line := range strings.Lines(out) {
		what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch what {
		case "run":
			s.ran[rest]++
		case "ack":
			s.acked[rest]++
		default:
			s.ends = append(s.ends, strings.TrimSpace(line))
		}
	}
	return s
}

// limited runs this program with the given limit.
func limited(t *testing.T, limit, dir string, size int, attr *syscall.SysProcAttr) (stdout, stderr string, err error) {
	t.Helper()
	cmd := process.Command(t, limit, dir, strconv.Itoa(size))
	cmd.SysProcAttr = attr
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// requireStopped requires that the full disk stopped the run in the middle, with an error, and that
// no further calls were made.
func requireStopped(t *testing.T, s said, closed bool) {
	t.Helper()
	require.Equal(t, []string{
		"end true true false", // not stored, interrupted, not successful
		"interrupted store",
		"after false",
		fmt.Sprint("closed ", closed),
	}, s.ends)
	require.NotEmpty(t, s.acked)
	require.Less(t, len(s.acked), calls)
	require.LessOrEqual(t, len(s.ran), len(s.acked)+1, "at most the call that could not be stored")
}

// requireWhole requires that the complete run is stored, with each call once.
func requireWhole(t *testing.T, records []record.Record) {
	t.Helper()
	completed := make(map[record.Address]int)
	for i := range records {
		assert.Equal(t, uint64(i)+1, records[i].Seq)
		if r := &records[i]; r.Kind == record.KindTool && r.Status == record.StatusCompleted {
			completed[r.Address]++
			require.Equal(t, 1, completed[r.Address])
		}
	}
	require.Len(t, completed, calls)
}

func TestRunOnAFullDiskStopsAndContinuesWithAllThatWasAcknowledged(t *testing.T) {
	dir := t.TempDir()
	stdout, stderr, err := limited(t, "size of files", dir, inline, nil)
	require.NoError(t, err, stderr)
	first := parse(t, stdout)
	requireStopped(t, first, false)

	store, err := filestore.New(dir)
	require.NoError(t, err)
	found := testkit.LoadRun(t, store, runID)
	assert.Equal(t, snapshot.StatusInterrupted, found.Status)

	ran := 0
	write := decorators.Tool("write", "", func(_ context.Context, in order) (string, error) {
		ran++
		assert.NotContains(t, first.acked, fmt.Sprint(in.N), "its outcome was acknowledged")
		return output(in.N, inline), nil
	})
	agent := decorators.Agent("agent", "", func(ctx context.Context, _ order) (int, error) {
		for n := range calls {
			if _, err := write.Call(ctx, order{n}); err != nil {
				return 0, err
			}
		}
		return calls, nil
	})
	st, err := state.Open(t.Context(), store, runID)
	require.NoError(t, err)
	out, err := agent.Call(st.Context(t.Context()), order{})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Equal(t, calls, out)
	assert.Equal(t, calls-len(first.acked), ran)
	found = testkit.LoadRun(t, store, runID)
	requireWhole(t, found.Records)
}

func TestRunOnAFullFileSystemContinuesWhenThereIsRoom(t *testing.T) {
	for name, size := range map[string]int{"journal": inline, "artifacts": large} {
		t.Run(name, func(t *testing.T) { requireGoesOn(t, size) })
	}
}

// requireGoesOn requires that a run stops when its outputs do not fit on the disk, and continues
// once there is more space.
func requireGoesOn(t *testing.T, size int) {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 { // in a separate user namespace, root may mount file systems
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	stdout, stderr, err := limited(t, "small file system", t.TempDir(), size, attr)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == exitNoMount,
		errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EINVAL): // the process cannot be started: namespaces are not available
		t.Skipf("cannot mount a small file system here: %v: %s", err, stderr)
	case err != nil:
		t.Fatal(err, stderr)
	}
	before, after, found := strings.Cut(stdout, "room again\n")
	require.True(t, found, stdout)
	first, second := parse(t, before), parse(t, after)
	requireStopped(t, first, size == large) // the journal still has space if only an artifact does not fit
	require.Equal(t, []string{"end false false true", "after true", "closed true"}, second.ends)
	require.Len(t, second.acked, calls)
	for n := range first.acked {
		require.NotContains(t, second.ran, n, "its outcome was acknowledged")
	}
	require.Len(t, second.ran, calls-len(first.acked)+1, "the remaining calls and the one after the end")
	for n, times := range first.ran {
		require.Equal(t, 1, times, "call %s", n)
	}
}
