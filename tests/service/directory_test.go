package service

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/campaign"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// shareDirectory executes the runs in a directory, as other processes do at the same time, until
// its standard input is closed.
func shareDirectory(args ...string) error {
	store, err := filestore.New(args[0])
	if err != nil {
		return err
	}
	ctx, cancel := process.UntilStdinEnds()
	defer cancel()
	fmt.Println("ready")
	return campaign.Work{Store: store, Dir: args[1]}.Serve(ctx)
}

// TestDirectoryCampaign does random things to three workers that share a directory while runs are
// being started there: workers are killed, or stopped and continued. At the end, each run must have
// ended, its history must have no gaps, and no call with an outcome may have been repeated.
//
// REPRISE_CAMPAIGN is "<seed> <runs> <faults>"; see CONTRIBUTING.md.
func TestDirectoryCampaign(t *testing.T) {
	rng, runs, faults := campaign.Length(t, 24, 8)
	dir, ledger := t.TempDir(), t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	campaign.Run(t, campaign.Options{
		Site: campaign.NewSite(t, campaign.Work{Store: store, Dir: ledger}), Lease: time.Second, Rand: rng,
		Worker: func(string) *exec.Cmd { return process.Command(t, "share", dir, ledger) },
	}, runs, faults)
}
