package printer

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Printer writes records as lines of text. It is safe for concurrent use and can show
// several runs. Lines that belong together are written with one call to Write, so they
// are never interleaved with other lines.
type Printer struct {
	theme    theme
	previews bool
	compact  bool           // false after Close
	live     bool           // live lines are shown until Close
	done     chan struct{}  // closed by Close
	redraws  sync.WaitGroup // waits for the goroutine that draws live lines

	mu        sync.Mutex // guards the fields below, and is held while writing
	w         io.Writer
	err       error
	counts    counts
	scheduler scheduler
	texts     liveTexts
	screen    *screen // nil if there are no live lines
	partial   []byte  // an unfinished line passed to Write
	redrawing bool
	closed    bool
}

// New returns a printer that writes to w. By default it shows running calls as live
// lines if w is a terminal; otherwise it writes lines as soon as events happen. If w is
// nil, the printer only counts.
//
// While a run is running, other output to w must go through Write.
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
		theme: theme{
			symbols: c.symbols, colors: wantsColors(c.terminal), guides: live,
			command: string(appendClean(nil, c.command, maxCommand, c.symbols.ellipsis)),
		},
		previews: c.previews, compact: live || c.form == formCompact, live: live,
		done: make(chan struct{}), w: w, counts: newCounts(maxFollowed), texts: make(liveTexts),
	}
	if live {
		p.screen = &screen{size: c.terminal.size, reflows: reflows()}
	}
	p.scheduler = scheduler{tree: newTree(maxNodes), compact: p.compact, bars: live, out: text{theme: &p.theme}}
	return p
}

// Publish shows r and counts it for the [Summary]. It blocks until the writer returns. Errors from
// the writer are reported by Err. After Close, lines are written in plain form.
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
	p.startRedrawing()
}

// Write writes the program's own output between the printer's lines, above the live
// lines. An unfinished line is buffered until it is complete or Close is called. The
// data is not modified. Write returns the writer's error.
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

// Err returns the first error from the writer, or nil. The printer continues to write
// after an error.
func (p *Printer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Close removes the live lines, writes the buffered lines of calls that have not ended and any
// unfinished line that was passed to Write, and waits for the goroutine that draws. It returns the
// result of Err. A program that may end while calls are running must call Close. Close may be
// called twice. It does not close the writer.
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
	p.scheduler.endChildren(&p.scheduler.tree.root)
	p.endPartial()
	_ = p.flush()
	p.scheduler.compact, p.scheduler.bars = false, false
}

// flush writes the pending lines, followed by the live lines, in one Write. p.mu must be
// held.
func (p *Printer) flush() error {
	out := p.scheduler.out.buf
	if p.screen != nil {
		out = p.screen.frame(out, p.liveLines(), p.theme.colors)
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
	t := liveTree{theme: &p.theme, tree: &p.scheduler.tree, texts: p.texts, columns: columns, rows: rows, now: time.Now()}
	return t.draw()
}
