package printer

// The control sequences are from ECMA-48, which current terminals support. The cursor
// is never hidden and stays below the live lines, so that the terminal remains usable if
// the process is killed.
//
// Lines are erased one by one. If they were erased all at once, some terminals, such as
// tmux, would keep them in the scrollback and show them twice.
const (
	eraseRow   = "\x1b[2K"
	eraseRest  = "\x1b[K" // from the cursor to the end of the row
	cursorUp   = "\x1b[A"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
	beginFrame = "\x1b[?2026h" // start of a synchronized update, if supported
	endFrame   = "\x1b[?2026l"
)

// A screen draws live lines below the text written to a terminal. Each frame is one
// Write and leaves the terminal in its previous state.
type screen struct {
	size    func() (columns, rows int)
	reflows bool // the terminal reflows lines when it becomes narrower

	drawn   []int // widths of the live lines on the terminal
	columns int   // width of the terminal when the lines were drawn
	last    []byte
	buf     []byte
}

// The size assumed if the terminal does not report one.
const (
	defaultColumns = 80
	defaultRows    = 24
)

// measure returns the size of the part of the terminal that live lines may use. It leaves a third
// of the rows free, and also one column, so that no line touches the edge.
func (s *screen) measure() (columns, rows int) {
	columns, rows = s.size()
	if columns <= 0 {
		columns = defaultColumns
	}
	if rows <= 0 {
		rows = defaultRows
	}
	if s.columns != columns {
		s.last = nil // the terminal may have moved lines
	}
	s.rewrap(columns)
	s.columns = columns
	return columns - 1, min(rows-1, max(3, rows*2/3))
}

// rewrap updates the widths of the drawn lines after the terminal has become narrower and has
// reflowed them.
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

// frame returns the bytes that write text above the live lines and redraw the live
// lines. It returns nil if nothing changes.
func (s *screen) frame(text []byte, lines []liveLine, colors bool) []byte {
	if len(lines) == 0 && len(s.drawn) == 0 {
		return s.appendText(s.buf[:0], text)
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
			b = append(b, cursorUp...)
		}
	} else {
		b = append(b, "\r"+eraseRow...) // erase what the user typed
		for range s.drawn {
			b = append(b, cursorUp+eraseRow...)
		}
	}
	b = s.appendText(b, text)
	b = append(b, wrapOff...)
	b = append(b, drawing...)
	b = append(b, wrapOn+endFrame...)
	s.drawn, s.last, s.buf = widths, drawing, b
	return b
}

// appendText appends text with CR LF line ends, since the terminal may be in raw mode.
func (s *screen) appendText(b, text []byte) []byte {
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
