package printer

import (
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
)

// A liveLine is one row of a terminal, in pieces of one colour.
type liveLine []piece

type piece struct {
	style style
	text  string
}

// widths measures text in columns of a terminal. Where terminals differ in
// what is ambiguous, a line that turns out too long is cut by the terminal.
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

// area makes the live lines: the calls that are going on, as they are nested.
type area struct {
	*look
	tree    *tree
	columns int // that a line may have
	rows    int // that there may be
	now     time.Time

	lines   []liveLine
	calls   int // that have a line
	waiting int
}

// draw returns the lines. Where there is not enough room for all, the last
// says how many calls are missing.
func (a *area) draw() []liveLine {
	runs := len(a.tree.runs)
	if a.tree.calls == 0 || a.rows < 1 {
		return nil
	}
	all := a.tree.nodes
	if runs == 1 {
		all-- // has no line
	}
	room := a.rows
	if all > room {
		room--
	}
	a.below(&a.tree.root, "", room)
	if all > room {
		a.lines = append(a.lines, liveLine{{faint, a.missing()}})
	}
	return a.lines
}

// below adds the lines of what is inside n, each begun by the guides.
func (a *area) below(n *node, guides string, room int) {
	for child := n.first; child != nil && len(a.lines) < room; child = child.after {
		if child.isRun() && len(a.tree.runs) == 1 {
			a.below(child, "", room)
			continue
		}
		branch, guide := a.branch, a.guide
		if child.after == nil {
			branch, guide = a.last, a.blank
		}
		if n == &a.tree.root || n.isRun() && len(a.tree.runs) == 1 {
			branch, guide = "", ""
		}
		a.add(child, guides+branch)
		a.below(child, guides+guide, room)
	}
}

func (a *area) add(n *node, guides string) {
	guides = a.shorten(guides)
	room := a.columns - columnsOf(guides)
	line := liveLine{{faint, guides}}
	switch {
	case n.call != nil:
		a.calls++
		if n.call.waits {
			a.waiting++
		}
		line = append(line, a.call(&n.call.live, n.call.waits, room)...)
	case n.group != nil:
		line = append(line, a.group(n.group, room)...)
	default:
		line = append(line, piece{"", a.run + " run " + string(appendClean(nil, n.run.id, maxName, a.ellipsis))})
	}
	a.lines = append(a.lines, line.cut(a.columns, a.ellipsis))
}

// shorten leaves out the outer guides where calls are nested so deeply that
// there is no room for their names.
func (a *area) shorten(guides string) string {
	const step = 3
	most := max(step, a.columns/3/step*step)
	columns := columnsOf(guides)
	if columns <= most {
		return guides
	}
	kept := []rune(guides) // each is one column
	return a.ellipsis + string(kept[len(kept)-most+columnsOf(a.ellipsis):])
}

// call is the line of a call: its name, and its state, which is more important
// where there is not enough room for both.
func (a *area) call(l *live, waits bool, room int) []piece {
	state := a.state(l, waits, room)
	room -= columnsOf(l.mark.symbol) + 2
	for _, p := range state {
		room -= columnsOf(p.text)
	}
	const least = 4
	name := fit(l.label, max(room, least), a.ellipsis)
	pieces := append([]piece{{l.mark.style, l.mark.symbol + " "}, {"", name + " "}}, state...)
	if l.problem != "" && waits {
		pieces = append(pieces, piece{faint, " - " + l.problem})
	}
	return pieces
}

// narrow is how many columns are too few for the words of the specification
// beside a name.
const narrow = 60

func (a *area) state(l *live, waits bool, room int) []piece {
	if !waits {
		running := a.spinner[int(a.now.UnixMilli()/redrawEvery.Milliseconds())%len(a.spinner)] + " " + tenths(a.now.Sub(l.since))
		if l.ordinal != "" {
			return []piece{{again, "(retry " + l.ordinal + ") "}, {faint, running}}
		}
		return []piece{{faint, running}}
	}
	left := l.until.Sub(a.now)
	switch {
	case room < narrow && left > 0:
		return []piece{{again, a.retry + " " + l.ordinal + " in " + tenths(left)}}
	case room < narrow:
		return []piece{{again, a.retry + " " + l.ordinal}}
	case left > 0:
		return []piece{{again, a.retry + " Retrying (attempt " + l.ordinal + ") in " + tenths(left) + "..."}}
	}
	return []piece{{again, a.retry + " Retrying (attempt " + l.ordinal + ") at once..."}}
}

// tenths is a duration that changes on a screen: it does not change its unit
// below a second.
func tenths(d time.Duration) string {
	if d = max(0, d); d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Truncate(redrawEvery).Seconds())
	}
	return duration(d.Truncate(time.Second))
}

// group is a bar of the branches of a group that have begun: one cell for each,
// as far as there is room, and else so many for each part of them. It is no
// share of the whole, for how many there will be is not known.
func (a *area) group(g *groupNode, room int) []piece {
	p := &g.progress
	state := " " + p.String()
	pieces := []piece{{faint, a.symbols.group + " "}, {"", g.label + " "}}
	const most, least = 20, 5
	length := room - columnsOf(a.symbols.group) - 2 - columnsOf(g.label) - columnsOf(state)
	begun := p.begun()
	if length = min(length, most, begun); length >= min(least, begun) && !g.tooMany && begun > 0 {
		filled := 0
		for _, part := range []struct {
			style style
			upTo  int
		}{{good, p.done}, {bad, p.done + p.failed}, {paused, p.ended()}} {
			n := part.upTo * length / begun
			pieces = append(pieces, piece{part.style, strings.Repeat(a.bar, n-filled)})
			filled = n
		}
		pieces = append(pieces, piece{faint, strings.Repeat(a.rest, length-filled)})
	}
	return append(pieces, piece{"", state})
}

// missing says what has no line.
func (a *area) missing() string {
	waiting := a.tree.waiting - a.waiting
	running := a.tree.calls - a.calls - waiting
	s := a.ellipsis + " and "
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
