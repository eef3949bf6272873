package printer

// The control sequences in use are those of ECMA-48, which current terminals
// know. The cursor is never hidden and stands below the live lines, so that a
// process that is killed leaves the terminal usable.
//
// Lines are erased one by one: some terminals, such as tmux, keep in their
// scrollback what is erased all at once, and so show it twice.
const (
	eraseRow   = "\x1b[2K"
	eraseRest  = "\x1b[K" // of the row, from the cursor on
	up         = "\x1b[A"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
	beginFrame = "\x1b[?2026h" // what follows is shown at once, where that is known
	endFrame   = "\x1b[?2026l"
)

// screen draws live lines at the end of what is written to a terminal. Each
// frame is one Write and leaves the state of the terminal unchanged.
type screen struct {
	size    func() (columns, rows int)
	reflows bool // a line that no longer fits goes on in the next row

	drawn   []int // the widths of the live lines that are on the terminal
	columns int   // it had then
	last    []byte
	buf     []byte
}

// The size of a terminal that does not report it.
const (
	defaultColumns = 80
	defaultRows    = 24
)

// measure returns how much of the terminal live lines may take: one column
// less than there are, so that none touches the edge, and two thirds of the
// rows.
func (s *screen) measure() (columns, rows int) {
	columns, rows = s.size()
	if columns <= 0 {
		columns = defaultColumns
	}
	if rows <= 0 {
		rows = defaultRows
	}
	if s.columns != columns {
		s.last = nil // lines may have been moved
	}
	s.rewrap(columns)
	s.columns = columns
	return columns - 1, min(rows-1, max(3, rows*2/3))
}

// rewrap computes the rows that the lines on the terminal take after a new
// width reflowed them.
func (s *screen) rewrap(columns int) {
	if !s.reflows || columns >= s.columns {
		return
	}
	var widths []int
	for _, w := range s.drawn {
		for ; w > columns; w -= columns {
			widths = append(widths, columns)
		}
		widths = append(widths, w)
	}
	s.drawn = widths
}

// frame returns the bytes that put text above the live lines and draw those
// anew. It returns nil where nothing changes.
func (s *screen) frame(text []byte, lines []liveLine, colors bool) []byte {
	if len(lines) == 0 && len(s.drawn) == 0 {
		return s.above(s.buf[:0], text)
	}
	drawing := make([]byte, 0, 512)
	widths := make([]int, 0, len(lines))
	for _, line := range lines {
		drawing = line.appendTo(drawing, colors)
		drawing = append(drawing, eraseRest+"\r\n"...)
		widths = append(widths, line.width())
	}
	if len(text) == 0 && s.last != nil && string(s.last) == string(drawing) {
		return nil
	}
	b := s.buf[:0]
	b = append(b, beginFrame...)
	if len(text) == 0 && len(s.drawn) == len(widths) {
		b = append(b, '\r')
		for range s.drawn {
			b = append(b, up...)
		}
	} else {
		b = append(b, "\r"+eraseRow...) // of what was typed
		for range s.drawn {
			b = append(b, up+eraseRow...)
		}
	}
	b = s.above(b, text)
	b = append(b, wrapOff...)
	b = append(b, drawing...)
	b = append(b, wrapOn+endFrame...)
	s.drawn, s.last, s.buf = widths, drawing, b
	return b
}

// above appends text for a terminal that may be in raw mode.
func (s *screen) above(b, text []byte) []byte {
	for _, c := range text {
		if c == '\n' {
			b = append(b, '\r')
		}
		b = append(b, c)
	}
	s.buf = b
	return b
}

func (l liveLine) appendTo(b []byte, colors bool) []byte {
	for _, p := range l {
		if p.text == "" {
			continue
		}
		if !colors || p.style == "" {
			b = append(b, p.text...)
			continue
		}
		b = append(b, p.style...)
		b = append(b, p.text...)
		b = append(b, styleOff...)
	}
	return b
}
