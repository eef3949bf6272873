package snapshot

import (
	"context"
	"os"
	"strings"
	"time"
)

// lookEvery is how often whoever watches an inbox looks at it for what the
// system does not tell: that the process which had the run open has ended,
// and changes on file systems without notification.
const lookEvery = 2 * time.Second

// noticeAfter is how long somebody watches before the system is asked to tell:
// to stop that costs 10 ms on some systems, which short runs are spared.
const noticeAfter = 50 * time.Millisecond

// WithInboxCheck has those who watch the inbox of a run, as every run does
// that is open, look at it so often, and no longer be told by the operating
// system. It is for a directory that the operating system tells nothing of,
// such as one that is shared over a network, and for tests on the clock of
// testing/synctest, which stands still while a goroutine waits for the system.
// NewFileStore fails if every is not above zero. Defaults to being told, and
// looking every 2 seconds besides.
func WithInboxCheck(every time.Duration) FileOption {
	return func(s *FileStore) { s.lookEvery, s.notices = every, nil }
}

// Watch implements [Inbox]. It waits on what the operating system tells of the
// inbox, see WithInboxCheck.
func (s *FileStore) Watch(ctx context.Context, runID string, changed func()) error {
	if err := check(ctx, runID); err != nil {
		return err
	}
	if err := s.mustBeThere(runID); err != nil {
		return err
	}
	dir := s.run(runID, inboxName)
	soon, ticker := time.NewTimer(noticeAfter), time.NewTicker(s.lookEvery)
	defer soon.Stop()
	defer ticker.Stop()
	var told chan struct{} // nil as long as the system tells nothing
	defer func() { s.notices.drop(dir, told) }()
	known := ""
	for notified := true; ctx.Err() == nil; {
		if now := s.look(runID); notified || now != known {
			known = now
			changed()
		}
		notified = false
		select {
		case <-told:
			notified = true
		case <-soon.C:
			told = s.notices.add(dir)
			notified = true // there may be what came and went before
		case <-ticker.C:
			if told == nil {
				told = s.notices.add(dir)
			}
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// look is a text that is another one when there is something new to be told:
// which messages wait, whether the run is open, and how often it was, which the
// meta file says and which does not come back when a run is opened and closed
// between two looks.
func (s *FileStore) look(runID string) string {
	var b strings.Builder
	if held, err := isHeld(s.run(runID, lockName)); err == nil && held {
		b.WriteString("open")
	}
	entries, _ := os.ReadDir(s.run(runID, inboxName))
	for _, e := range entries {
		b.WriteByte('/')
		b.WriteString(e.Name())
	}
	meta, _ := os.ReadFile(s.run(runID, metaName))
	b.WriteByte('/')
	b.Write(meta)
	return b.String()
}

// poke tells those who watch the inbox of a run that was closed. If there is
// no inbox, nobody watches it.
func (s *FileStore) poke(runID string) {
	now := time.Now()
	_ = os.Chtimes(s.run(runID, inboxName), now, now)
}
