package snapshot

import (
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

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
