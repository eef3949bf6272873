package printer

import (
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/reprise-go/reprise/live"
)

// A liveLine is one row of a terminal, in pieces of one colour.
type liveLine []piece

type piece struct {
	style style
	text  string
}

// widths measures text in columns of a terminal. Terminals differ in what is
// ambiguous; a line that turns out too long is cut by the terminal.
var widths = runewidth.Condition{}

// columnsOf is how many columns s takes.
func columnsOf(s string) int { return widths.StringWidth(s) }

// fit returns as much of s as fits, with the ellipsis if there is room for it.
func fit(s string, columns int, ellipsis string) string {
	if columnsOf(ellipsis) >= columns {
		ellipsis = ""
	}
	return widths.Truncate(s, columns, ellipsis)
}

// liveTree makes the live lines: the calls that are going on, as they are
// nested.
type liveTree struct {
	*look
	tree    *tree
	texts   liveTexts
	columns int // that a line may have
	rows    int // that there may be
	now     time.Time

	lines   []liveLine
	spare   int // rows that the lines of calls leave for texts
	waiting int // calls that have a line
}

// draw returns the lines. Where there is not enough room for all, the last
// says how many calls are missing.
func (t *liveTree) draw() []liveLine {
	if t.tree.calls == 0 || t.rows < 1 {
		return nil
	}
	all := t.tree.nodes - t.tree.hidden
	if len(t.tree.runs) == 1 {
		all-- // the run has no line
	}
	room := t.rows
	t.spare = max(0, room-all)
	if all > room {
		room--
	}
	top := &t.tree.root
	if len(t.tree.runs) == 1 {
		top = top.first
	}
	t.below(top, "", false, room)
	if all > room {
		t.lines = append(t.lines, liveLine{{faint, t.missing(all)}})
	}
	return t.lines
}

// below adds the lines of what is inside n, each begun by the guides.
func (t *liveTree) below(n *node, guides string, nested bool, room int) {
	inside := t.inside(nil, n, room-len(t.lines)+1)
	for i, child := range inside {
		if len(t.lines) >= room {
			return
		}
		branch, guide := "", ""
		switch {
		case nested && i == len(inside)-1:
			branch, guide = t.last, t.blank
		case nested:
			branch, guide = t.branch, t.guide
		}
		t.add(child, guides+branch)
		t.text(child, guides+guide)
		t.below(child, guides+guide, true, room)
	}
}

// text adds the lines of what a call is producing.
func (t *liveTree) text(n *node, guides string) {
	if n.call == nil || t.spare == 0 {
		return
	}
	text := t.texts[textKey{n.run.id, n.path}]
	if text == nil {
		return
	}
	guides = t.shorten(guides) + "  "
	style := faint
	if text.part == live.PartText {
		style = ""
	}
	for _, row := range text.rows(t.columns-columnsOf(guides), min(t.spare, maxTextRows), t.ellipsis) {
		t.spare--
		t.lines = append(t.lines, liveLine{{faint, guides}, {style, row}}.cut(t.columns, t.ellipsis))
	}
}

// inside appends what has a line inside n, up to a number: in the place of a
// branch, the calls that go on in it.
func (t *liveTree) inside(nodes []*node, n *node, limit int) []*node {
	for child := n.first; child != nil && len(nodes) < limit; child = child.after {
		if child.isBranch() && child.first != nil {
			nodes = t.inside(nodes, child, limit)
		} else {
			nodes = append(nodes, child)
		}
	}
	return nodes
}

func (t *liveTree) add(n *node, guides string) {
	guides = t.shorten(guides)
	room := t.columns - columnsOf(guides)
	line := liveLine{{faint, guides}}
	switch {
	case n.call == nil:
		line = append(line, piece{"", t.run + " run " + string(appendClean(nil, n.run.id, maxName, t.ellipsis))})
	case n.call.group != nil:
		line = append(line, t.progress(n.call.group, room)...)
	default:
		if n.call.waits {
			t.waiting++
		}
		line = append(line, t.call(&n.call.live, n.call.waits, room)...)
	}
	t.lines = append(t.lines, line.cut(t.columns, t.ellipsis))
}

// shorten leaves out the outer guides where calls are nested so deeply that
// there is no room for their names.
func (t *liveTree) shorten(guides string) string {
	const step = 3
	most := max(step, t.columns/3/step*step)
	columns := columnsOf(guides)
	if columns <= most {
		return guides
	}
	kept := []rune(guides) // each is one column
	return t.ellipsis + string(kept[len(kept)-most+columnsOf(t.ellipsis):])
}

// call is the line of a call: its name and its state. The name is cut where
// there is not enough room for both.
func (t *liveTree) call(l *liveState, waits bool, room int) []piece {
	state := t.state(l, waits, room)
	room -= columnsOf(l.mark.symbol) + 2
	for _, p := range state {
		room -= columnsOf(p.text)
	}
	const least = 4
	name := fit(l.label, max(room, least), t.ellipsis)
	pieces := append([]piece{{l.mark.style, l.mark.symbol + " "}, {"", name + " "}}, state...)
	if l.cause != "" && waits {
		pieces = append(pieces, piece{faint, " - " + l.cause})
	}
	return pieces
}

// narrow is how many columns are too few for the long form of a wait beside a
// name.
const narrow = 60

func (t *liveTree) state(l *liveState, waits bool, room int) []piece {
	if !waits {
		running := t.spinner[int(t.now.UnixMilli()/redrawEvery.Milliseconds())%len(t.spinner)] + " " + tenths(t.now.Sub(l.since))
		if l.ordinal != "" {
			return []piece{{again, "(retry " + l.ordinal + ") "}, {faint, running}}
		}
		return []piece{{faint, running}}
	}
	left := l.until.Sub(t.now)
	switch {
	case room < narrow && left > 0:
		return []piece{{again, t.retry + " " + l.ordinal + " in " + tenths(left)}}
	case room < narrow:
		return []piece{{again, t.retry + " " + l.ordinal}}
	case left > 0:
		return []piece{{again, t.retry + " Retrying (attempt " + l.ordinal + ") in " + tenths(left) + "..."}}
	}
	return []piece{{again, t.retry + " Retrying (attempt " + l.ordinal + ") at once..."}}
}

// tenths is a duration that changes on a screen: its unit is the second up to
// a minute.
func tenths(d time.Duration) string {
	if d = max(0, d); d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Truncate(redrawEvery).Seconds())
	}
	return duration(d.Truncate(time.Second))
}

// progress is the line of a group, with a bar of its branches: a cell for each
// where there is room, else for several.
func (t *liveTree) progress(p *progress, room int) []piece {
	state := " " + p.String()
	pieces := []piece{{faint, t.group + " "}, {"", p.label + " "}}
	const maxCells, minCells = 20, 5
	branches := p.branches()
	cells := min(maxCells, branches, room-columnsOf(t.group)-2-columnsOf(p.label)-columnsOf(state))
	if cells >= min(minCells, branches) && branches > 0 {
		filled := 0
		for _, part := range []struct {
			style style
			upTo  int
		}{{good, p.done}, {bad, p.done + p.failed}, {paused, p.all()}} {
			n := part.upTo * cells / branches
			pieces = append(pieces, piece{part.style, strings.Repeat(t.bar, n-filled)})
			filled = n
		}
		pieces = append(pieces, piece{faint, strings.Repeat(t.rest, cells-filled)})
	}
	return append(pieces, piece{"", state})
}

// missing says how many of all lines are missing.
func (t *liveTree) missing(all int) string {
	waiting := t.tree.waiting - t.waiting
	running := all - len(t.lines) - waiting
	s := t.ellipsis + " and "
	switch {
	case waiting > 0 && running > 0:
		return s + fmt.Sprintf("%d more running, %d retrying", running, waiting)
	case waiting > 0:
		return s + fmt.Sprintf("%d more retrying", waiting)
	}
	return s + fmt.Sprintf("%d more running", running)
}

// cut returns as much of the line as fits.
func (l liveLine) cut(columns int, ellipsis string) liveLine {
	for i, p := range l {
		w := columnsOf(p.text)
		if w > columns {
			l[i].text = fit(p.text, columns, ellipsis)
			return l[:i+1]
		}
		columns -= w
	}
	return l
}

// width is how many columns the line takes.
func (l liveLine) width() int {
	n := 0
	for _, p := range l {
		n += columnsOf(p.text)
	}
	return n
}
