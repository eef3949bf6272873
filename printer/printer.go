package printer

import (
	"io"
	"sync"

	"github.com/reprise-go/reprise/core"
)

// A Printer writes records as lines of text. It is for many goroutines and
// many runs: each record is one call of Write, so that lines never mix.
type Printer struct {
	symbols  *symbols
	previews bool

	mu    sync.Mutex // guards what follows
	w     io.Writer
	err   error
	tally tally
}

// An Option changes how a [Printer] writes.
type Option func(*Printer)

// WithPreviews adds a line with the input and one with the output where a
// record has them. Off by default.
func WithPreviews() Option { return func(p *Printer) { p.previews = true } }

// WithASCII uses symbols of plain ASCII, such as "*", "x" and "~", for
// consoles without emoji. Names and messages stay as they are.
func WithASCII() Option { return func(p *Printer) { p.symbols = &ascii } }

// New returns a printer that writes to w; nothing else may write to w at the
// same time, unless w allows it. With a nil w the printer only counts.
func New(w io.Writer, options ...Option) *Printer {
	if w == nil {
		w = io.Discard
	}
	p := &Printer{symbols: &emoji, w: w, tally: newTally(remembered)}
	for _, option := range options {
		option(p)
	}
	return p
}

// Publish writes r and counts it for the [Summary]. It returns when the
// writer did; an error of the writer is kept for Err.
func (p *Printer) Publish(r core.Record) {
	lines := p.lines(&r) // before locking: it calls methods of the user's errors
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tally.add(&r)
	p.write(lines)
}

// Err is the first error of the writer, nil if there was none. The printer
// goes on writing after an error.
func (p *Printer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// write needs the lock.
func (p *Printer) write(text []byte) {
	n, err := p.w.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if p.err == nil {
		p.err = err
	}
}

// lines is the text of r, with a newline at the end.
func (p *Printer) lines(r *core.Record) []byte {
	t := text{symbols: p.symbols, buf: make([]byte, 0, 160)}
	switch {
	case r.Kind.IsCall():
		t.call(r)
	case r.Kind == core.KindRun:
		t.run(r)
	case r.Kind == core.KindLog:
		t.log(r)
	default:
		t.fact(r)
	}
	if p.previews && r.Detail != nil {
		t.previews(r)
	}
	return t.buf
}
