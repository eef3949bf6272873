package printer

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Printer shows records as lines of text. It is for many goroutines and
// many runs: each line is written whole, and lines that belong together are one
// call of Write, so that they never mix.
type Printer struct {
	look     look
	previews bool
	compact  bool           // until Close
	live     bool           // until Close
	done     chan struct{}  // closed by Close
	redraws  sync.WaitGroup // the goroutine that draws live lines

	mu        sync.Mutex // guards what follows, and writing
	w         io.Writer
	err       error
	counts    counts
	scheduler scheduler
	texts     liveTexts
	screen    *screen // nil without live lines
	partial   []byte  // a line of Write that has not ended
	redrawing bool
	closed    bool
}

// New returns a printer that writes to w. Without options, running calls have live lines
// if w is a terminal; otherwise lines are written when they happen. With a nil w the
// printer only counts.
//
// While a run is running, nothing else may write to w except through Write.
func New(w io.Writer, options ...Option) *Printer {
	if w == nil {
		w = io.Discard
	}
	c := config{symbols: &emoji, terminal: terminalOf(w), command: "reprise"}
	for _, option := range options {
		option(&c)
	}
	live := c.form == formAuto && c.terminal != nil && c.terminal.live
	p := &Printer{
		look: look{
			symbols: c.symbols, colors: wantsColors(c.terminal), guides: live,
			command: string(appendClean(nil, c.command, maxCommand, c.symbols.ellipsis)),
		},
		previews: c.previews, compact: live || c.form == formCompact, live: live,
		done: make(chan struct{}), w: w, counts: newCounts(maxFollowed), texts: make(liveTexts),
	}
	if live {
		p.screen = &screen{size: c.terminal.size, reflows: reflows()}
	}
	p.scheduler = scheduler{tree: newTree(maxNodes), compact: p.compact, bars: live, out: text{look: &p.look}}
	return p
}

// Publish shows r and counts it for the [Summary]. It returns when the writer has returned;
// an error of the writer is kept for Err. After Close, lines are written when they happen.
func (p *Printer) Publish(r record.Record) {
	text := p.render(&r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.add(&r)
	p.scheduler.add(&r, &text)
	p.texts.end(&r)
	if len(p.scheduler.out.buf) > 0 {
		_ = p.flush()
	}
	p.goLive()
}

// Write writes lines of the program between those of the printer, above the live lines.
// An unfinished line is kept until it ends, or until Close. The text is written unchanged.
// The error is the error of the writer.
func (p *Printer) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const maxPartial = 64 << 10
	end := bytes.LastIndexByte(data, '\n') + 1
	out := &p.scheduler.out
	if end > 0 {
		out.buf = append(append(out.buf, p.partial...), data[:end]...)
		p.partial = p.partial[:0]
	}
	p.partial = append(p.partial, data[end:]...)
	if len(p.partial) > maxPartial || p.closed && len(p.partial) > 0 {
		p.endPartial()
	}
	if len(out.buf) == 0 {
		return len(data), nil
	}
	if err := p.flush(); err != nil {
		return 0, err
	}
	return len(data), nil
}

func (p *Printer) endPartial() {
	if len(p.partial) > 0 {
		p.scheduler.out.buf = append(append(p.scheduler.out.buf, p.partial...), '\n')
		p.partial = nil
	}
}

// Err returns the first error of the writer, nil if there was none. The printer continues
// to write after an error.
func (p *Printer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Close removes the live lines, writes the buffered lines of calls that have not ended, and
// waits for the goroutine that draws. It returns Err. A program that may end while calls
// run must call it. If every call or every run has ended, only an unfinished line of Write
// is left to close. Closing twice is fine. Close does not close the writer.
func (p *Printer) Close() error {
	p.close()
	p.redraws.Wait()
	return p.Err()
}

func (p *Printer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	close(p.done)
	p.scheduler.endBelow(&p.scheduler.tree.root)
	p.endPartial()
	_ = p.flush()
	p.scheduler.compact, p.scheduler.bars = false, false
}

// flush writes the lines that are due, and the live lines below them, in one
// Write. The lock is held.
func (p *Printer) flush() error {
	out := p.scheduler.out.buf
	if p.screen != nil {
		out = p.screen.frame(out, p.liveLines(), p.look.colors)
	}
	p.scheduler.out.buf = p.scheduler.out.buf[:0]
	if len(out) == 0 {
		return nil
	}
	n, err := p.w.Write(out)
	if err == nil && n < len(out) {
		err = io.ErrShortWrite
	}
	if p.err == nil {
		p.err = err
	}
	return err
}

func (p *Printer) liveLines() []liveLine {
	columns, rows := p.screen.measure()
	if p.closed {
		return nil
	}
	t := liveTree{look: &p.look, tree: &p.scheduler.tree, texts: p.texts, columns: columns, rows: rows, now: time.Now()}
	return t.draw()
}
