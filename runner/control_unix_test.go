//go:build unix

package runner_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// A process hangs, so that it does not read the interrupt of its run, and is then
// killed.
func TestInterruptOfAProcessThatIsKilledBeforeItReadsItCounts(t *testing.T) {
	r, dir := starter(t)
	cmd := process.Command(t, "service", dir)
	p := process.Start(t, cmd)
	for _, id := range []string{"interrupted", "cancelled", "neither"} {
		_, err := r.Start(t.Context(), "hold", id, word{id}, runner.StartOptions{})
		require.NoError(t, err)
	}
	p.Await("holding interrupted", "holding cancelled", "holding neither")
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, r.Interrupt(t.Context(), "interrupted", snapshot.Stop{By: "ann", Message: "stop"}))
	require.NoError(t, r.Cancel(t.Context(), "cancelled", snapshot.Stop{By: "ann", Message: "stop"}))
	p.Kill()

	require.NoError(t, os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600))
	p = begin(t, dir)
	p.Await("closed neither completed")
	info := awaitInfo(t, r, "cancelled", func(i *snapshot.Info) bool { return i.Status == snapshot.StatusCancelled })
	assert.Equal(t, "ann", info.Stop.By)
	info = awaitInfo(t, r, "interrupted", func(i *snapshot.Info) bool { return i.Stop.Reason == record.InterruptUser })
	assert.Equal(t, snapshot.StatusInterrupted, info.Status)
	assert.Equal(t, "ann", info.Stop.By)
	require.NoError(t, r.Resume(t.Context(), "interrupted"))
	p.Await("closed interrupted completed")
	p.Stop()
}
