package filestore

import (
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// notices reports changes in directories. All directories share one fsnotify watcher, since the
// operating system allows only a few watchers. The watcher exists while at least one directory is
// watched.
type notices struct {
	mkdir   func(name string) error
	busy    sync.Mutex // held while the watcher is changed
	watcher *fsnotify.Watcher
	ended   chan struct{} // closed when forward has returned

	mu     sync.Mutex // guards notify; never held while a method of the watcher is called
	notify map[string][]chan struct{}
}

// add causes c to receive a value after each change in dir. It creates dir if its parent
// exists. It reports whether the operating system will report changes in dir.
func (n *notices) add(dir string, c chan struct{}) bool {
	if n == nil {
		return false
	}
	n.busy.Lock()
	defer n.busy.Unlock()
	_ = n.mkdir(dir) // if this fails, Add fails below
	if n.watcher == nil && !n.start() {
		return false
	}
	if err := n.watcher.Add(dir); err != nil { // adding a directory twice is fine
		n.stopIfIdle()
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notify[dir] = append(n.notify[dir], c)
	return true
}

// start creates the watcher and starts forwarding its events. The caller holds n.busy.
func (n *notices) start() bool {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return false
	}
	n.watcher, n.ended = w, make(chan struct{})
	n.mu.Lock()
	n.notify = make(map[string][]chan struct{})
	n.mu.Unlock()
	go n.forward(w, n.ended)
	return true
}

// drop undoes an add that returned true.
func (n *notices) drop(dir string, c chan struct{}) {
	n.busy.Lock()
	defer n.busy.Unlock()
	if last := n.forget(dir, c); last {
		_ = n.watcher.Remove(dir) // the directory may be gone already
	}
	n.stopIfIdle()
}

// forget removes a channel, and reports whether it was the last one for the directory.
func (n *notices) forget(dir string, gone chan struct{}) (last bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var rest []chan struct{}
	for _, c := range n.notify[dir] {
		if c != gone {
			rest = append(rest, c)
		}
	}
	n.notify[dir] = rest
	if len(rest) == 0 {
		delete(n.notify, dir)
	}
	return len(rest) == 0
}

// stopIfIdle closes the watcher if no directory is watched, and waits until forward has returned.
// The caller holds n.busy.
func (n *notices) stopIfIdle() {
	n.mu.Lock()
	idle := len(n.notify) == 0
	n.mu.Unlock()
	if !idle {
		return
	}
	_ = n.watcher.Close()
	<-n.ended
	n.watcher = nil
}

// forward forwards the watcher's events to the channels until the watcher is closed.
func (n *notices) forward(w *fsnotify.Watcher, ended chan struct{}) {
	defer close(ended)
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if filepath.Ext(e.Name) != tmpSuffix {
				n.ring(e.Name)               // if the event is about the directory itself
				n.ring(filepath.Dir(e.Name)) // if the event is about a file in the directory
			}
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
			n.ringAll() // an event was lost
		}
	}
}

func (n *notices) ring(dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.notify[dir] {
		ring(c)
	}
}

func (n *notices) ringAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, all := range n.notify {
		for _, c := range all {
			ring(c)
		}
	}
}

// ring sends a value to c, unless a value is already waiting there.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
