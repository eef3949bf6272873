package printer

import (
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/reprise-go/reprise/core/live"
)

// A liveLine is one row of a terminal. It consists of pieces, each with a single color.
type liveLine []piece

type piece struct {
	style style
	text  string
}

// widths measures text in terminal columns. Terminals disagree about ambiguous characters. If a
// line turns out to be too long, the terminal itself truncates it.
var widths = runewidth.Condition{}

// displayWidth returns the number of columns that s takes.
func displayWidth(s string) int { return widths.StringWidth(s) }

// fit truncates s to the given number of columns. It appends the ellipsis if there is
// room for it.
func fit(s string, columns int, ellipsis string) string {
	if displayWidth(ellipsis) >= columns {
		ellipsis = ""
	}
	return widths.Truncate(s, columns, ellipsis)
}

// A liveTree draws the live lines: the tree of running calls.
type liveTree struct {
	*theme
	tree    *tree
	texts   liveTexts
	columns int // maximum width of a line
	rows    int // maximum number of lines
	now     time.Time

	lines   []liveLine
	spare   int // rows left over for the output of calls
	waiting int // number of drawn calls that wait for a retry
}

// draw returns the live lines. If there is not enough room, the last line shows how many
// calls are left out.
func (t *liveTree) draw() []liveLine {
	if t.tree.calls == 0 || t.rows < 1 {
		return nil
	}
	all := t.tree.nodes - t.tree.hidden
	if len(t.tree.runs) == 1 {
		all-- // a single run has no line of its own
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
	t.addChildren(top, "", false, room)
	if all > room {
		t.lines = append(t.lines, liveLine{{faint, t.missing(all)}})
	}
	return t.lines
}

// addChildren adds the lines of the calls inside n. Each line begins with guides.
func (t *liveTree) addChildren(n *node, guides string, nested bool, room int) {
	children := t.children(nil, n, room-len(t.lines)+1)
	for i, child := range children {
		if len(t.lines) >= room {
			return
		}
		branch, guide := "", ""
		switch {
		case nested && i == len(children)-1:
			branch, guide = t.last, t.blank
		case nested:
			branch, guide = t.branch, t.guide
		}
		t.add(child, guides+branch)
		t.text(child, guides+guide)
		t.addChildren(child, guides+guide, true, room)
	}
}

// text adds the lines that show the output of a call.
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
	for _, row := range text.rows(t.columns-displayWidth(guides), min(t.spare, maxTextRows), t.ellipsis) {
		t.spare--
		t.lines = append(t.lines, liveLine{{faint, guides}, {style, row}}.cut(t.columns, t.ellipsis))
	}
}

// children appends to nodes the calls inside n that have a line of their own, until nodes has limit
// elements. If calls are running inside a branch, they take the place of the branch.
func (t *liveTree) children(nodes []*node, n *node, limit int) []*node {
	for child := n.first; child != nil && len(nodes) < limit; child = child.next {
		if child.isBranch() && child.first != nil {
			nodes = t.children(nodes, child, limit)
		} else {
			nodes = append(nodes, child)
		}
	}
	return nodes
}

func (t *liveTree) add(n *node, guides string) {
	guides = t.shorten(guides)
	room := t.columns - displayWidth(guides)
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

// shorten removes the outer guides of deeply nested calls, so that their names have
// room.
func (t *liveTree) shorten(guides string) string {
	const step = 3
	most := max(step, t.columns/3/step*step)
	columns := displayWidth(guides)
	if columns <= most {
		return guides
	}
	kept := []rune(guides) // each rune takes one column
	return t.ellipsis + string(kept[len(kept)-most+displayWidth(t.ellipsis):])
}

// call returns the pieces of a call's line: its name and state. The name is truncated if
// there is not enough room for both.
func (t *liveTree) call(l *liveState, waits bool, room int) []piece {
	state := t.state(l, waits, room)
	room -= displayWidth(l.mark.symbol) + 2
	for _, p := range state {
		room -= displayWidth(p.text)
	}
	const least = 4
	name := fit(l.label, max(room, least), t.ellipsis)
	pieces := append([]piece{{l.mark.style, l.mark.symbol + " "}, {"", name + " "}}, state...)
	if l.cause != "" && waits {
		pieces = append(pieces, piece{faint, " - " + l.cause})
	}
	return pieces
}

// narrow is the width below which a line shows a wait in its short form.
const narrow = 60

func (t *liveTree) state(l *liveState, waits bool, room int) []piece {
	if !waits {
		running := t.spinner[int(t.now.UnixMilli()/redrawEvery.Milliseconds())%len(t.spinner)] + " " + tenths(t.now.Sub(l.since))
		if l.ordinal != "" {
			return []piece{{warning, "(retry " + l.ordinal + ") "}, {faint, running}}
		}
		return []piece{{faint, running}}
	}
	left := l.until.Sub(t.now)
	switch {
	case room < narrow && left > 0:
		return []piece{{warning, t.retry + " " + l.ordinal + " in " + tenths(left)}}
	case room < narrow:
		return []piece{{warning, t.retry + " " + l.ordinal}}
	case left > 0:
		return []piece{{warning, t.retry + " Retrying (attempt " + l.ordinal + ") in " + tenths(left) + "..."}}
	}
	return []piece{{warning, t.retry + " Retrying (attempt " + l.ordinal + ") at once..."}}
}

// tenths formats the elapsed or remaining time in a live line: in tenths of a second up to a
// minute, and in seconds beyond that.
func tenths(d time.Duration) string {
	if d = max(0, d); d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Truncate(redrawEvery).Seconds())
	}
	return duration(d.Truncate(time.Second))
}

// progress returns the pieces of a group's line, with a progress bar. Each cell of the bar stands
// for one branch if there is room, otherwise for several branches.
func (t *liveTree) progress(p *progress, room int) []piece {
	state := " " + p.String()
	pieces := []piece{{faint, t.group + " "}, {"", p.label + " "}}
	const maxCells, minCells = 20, 5
	branches := p.branches()
	cells := min(maxCells, branches, room-displayWidth(t.group)-2-displayWidth(p.label)-displayWidth(state))
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

// missing returns the text that replaces the calls that are left out. all is the number of lines
// that would be needed for all calls.
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

// cut truncates the line to the given number of columns.
func (l liveLine) cut(columns int, ellipsis string) liveLine {
	for i, p := range l {
		w := displayWidth(p.text)
		if w > columns {
			l[i].text = fit(p.text, columns, ellipsis)
			return l[:i+1]
		}
		columns -= w
	}
	return l
}

// width returns how many columns the line takes up.
func (l liveLine) width() int {
	n := 0
	for _, p := range l {
		n += displayWidth(p.text)
	}
	return n
}
