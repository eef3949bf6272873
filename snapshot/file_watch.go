package snapshot

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
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

// notices tells of changes in directories. Behind all of them is one watcher
// of the operating system, which has few, and only while somebody watches.
type notices struct {
	busy    sync.Mutex // held while the watcher is changed
	watcher *fsnotify.Watcher
	ended   chan struct{} // closed when pass has returned

	mu     sync.Mutex // guards what follows; never held while others' code runs
	tellTo map[string][]chan struct{}
}

// add returns what receives after changes in the directory, which is made if
// only it is missing; nil if the operating system tells nothing of it.
func (n *notices) add(dir string) chan struct{} {
	if n == nil {
		return nil
	}
	_ = osDisk{}.Mkdir(dir) // if not, adding it fails
	n.busy.Lock()
	defer n.busy.Unlock()
	if n.watcher == nil && !n.start() {
		return nil
	}
	told := make(chan struct{}, 1)
	if err := n.watcher.Add(dir); err != nil { // again is fine
		n.stopIfIdle()
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tellTo[dir] = append(n.tellTo[dir], told)
	return told
}

// start begins to pass on what the system tells. n.busy is held.
func (n *notices) start() bool {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return false
	}
	n.watcher, n.ended = w, make(chan struct{})
	n.mu.Lock()
	n.tellTo = make(map[string][]chan struct{})
	n.mu.Unlock()
	go n.pass(w, n.ended)
	return true
}

// drop takes back add.
func (n *notices) drop(dir string, told chan struct{}) {
	if n == nil || told == nil {
		return
	}
	n.busy.Lock()
	defer n.busy.Unlock()
	if last := n.forget(dir, told); last {
		_ = n.watcher.Remove(dir) // it may be gone
	}
	n.stopIfIdle()
}

// forget reports whether nobody is told of the directory any more.
func (n *notices) forget(dir string, told chan struct{}) (last bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var rest []chan struct{}
	for _, c := range n.tellTo[dir] {
		if c != told {
			rest = append(rest, c)
		}
	}
	n.tellTo[dir] = rest
	if len(rest) == 0 {
		delete(n.tellTo, dir)
	}
	return len(rest) == 0
}

// stopIfIdle ends the watcher if nobody watches, and waits for it. n.busy is
// held.
func (n *notices) stopIfIdle() {
	n.mu.Lock()
	idle := len(n.tellTo) == 0
	n.mu.Unlock()
	if !idle {
		return
	}
	_ = n.watcher.Close()
	<-n.ended
	n.watcher = nil
}

// pass passes on what the system tells, until the watcher is closed.
func (n *notices) pass(w *fsnotify.Watcher, ended chan struct{}) {
	defer close(ended)
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if filepath.Ext(e.Name) != tmpSuffix {
				n.tell(e.Name)               // the directory itself
				n.tell(filepath.Dir(e.Name)) // or a file in it
			}
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
			n.tellAll() // something was missed
		}
	}
}

func (n *notices) tell(dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.tellTo[dir] {
		ring(c)
	}
}

func (n *notices) tellAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, all := range n.tellTo {
		for _, c := range all {
			ring(c)
		}
	}
}

// ring wakes whoever waits on c, or will.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
