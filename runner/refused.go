package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// A run whose program differs from its records is refused: it remains interrupted with the reason
// divergence, and the store records which build refused it. A different build is probably a
// correction or a rollback. Therefore, each build tries such a run once, when the build begins to
// serve. If it refuses the run too, the store records it as the latest build that did so.

// executableHash returns a hash of the executable of the process, or an empty
// string if the executable cannot be read.
func executableHash() string {
	name, err := os.Executable()
	if err != nil {
		return ""
	}
	file, err := os.Open(name) //nolint:gosec // the executable of this process
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return ""
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// isRefusedRun reports whether the run stays interrupted because a program differed from
// its records.
func isRefusedRun(info *snapshot.Info) bool {
	return !info.Open && info.Status == snapshot.StatusInterrupted && info.Stop.Reason == record.InterruptDiverge
}

// noteRefusal records in the store that this build has refused the run.
func (r *Runner) noteRefusal(ctx context.Context, info snapshot.Info) snapshot.Info {
	now, err := r.store.Update(ctx, info.RunID, func(i *snapshot.Info) error {
		if !isRefusedRun(i) || i.Generation != info.Generation {
			return errChanged
		}
		i.RefusedBy = r.build()
		return nil
	})
	if err != nil {
		return info // when this build starts again, it tries the run again, which does no harm
	}
	return now
}

var errChanged = errors.New("the run has changed")

// tryRefused resumes the runs of registered programs that other builds have refused.
func (r *Runner) tryRefused(ctx context.Context) error {
	filter := snapshot.Filter{Status: []snapshot.Status{snapshot.StatusInterrupted}}
	for info, err := range snapshot.Runs(ctx, r.store, filter) {
		if err != nil {
			return err
		}
		if !isRefusedRun(&info) || !r.isOurs(&info) || r.build() == "" || info.RefusedBy == r.build() {
			continue
		}
		if err := r.Resume(ctx, info.RunID); err != nil && ctx.Err() == nil {
			r.observe(Notice{Type: NoticeTrouble, RunID: info.RunID, Program: info.Program, Version: info.Version, Status: info.Status, Err: fmt.Errorf("runner: try a refused run: %w", err)})
		}
	}
	return nil
}
