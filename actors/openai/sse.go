package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxEvent is the maximum size of an event. maxStray limits how much text is kept from a body that
// is not a stream.
const (
	maxEvent = 32 << 20
	maxStray = 32 << 20
)

var errLongEvent = malformed(fmt.Errorf("an event of more than %d bytes", maxEvent))

// An eventReader reads server-sent events according to the WHATWG standard, with any line endings,
// comments and multiple data lines. In addition, it returns a last event without a line ending, and
// keeps lines that are not part of a stream: they may explain why the service did not stream.
type eventReader struct {
	lines *bufio.Scanner

	begun   bool // the first line has been read
	skipLF  bool // the last line ended with a carriage return
	name    []byte
	data    []byte
	lengths []int    // lengths of the data lines
	pending [][]byte // events that arrived without an empty line between them
	events  int
	stray   []byte
}

// newEventReader returns a reader for the events in r. It calls touched whenever data is received.
func newEventReader(r io.Reader, touched func()) *eventReader {
	e := &eventReader{lines: bufio.NewScanner(notifyingReader{r, touched})}
	e.lines.Buffer(make([]byte, 0, 4096), maxEvent)
	e.lines.Split(e.splitLines)
	return e
}

// next returns the data of the next event, which is valid until the next call. isError
// reports whether the event is named "error". At the end, err is io.EOF.
func (e *eventReader) next() (data []byte, isError bool, err error) {
	if len(e.pending) > 0 {
		data, e.pending = e.pending[0], e.pending[1:]
		return data, false, nil
	}
	e.name, e.data, e.lengths = e.name[:0], e.data[:0], e.lengths[:0]
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if !e.begun {
			line, e.begun = bytes.TrimPrefix(line, byteOrderMark), true
		}
		if len(line) > 0 {
			if e.field(line); len(e.data) > maxEvent {
				return nil, false, errLongEvent
			}
			continue
		}
		if len(bytes.TrimSpace(e.data)) > 0 {
			return e.dispatch(), string(e.name) == "error", nil
		}
		e.name, e.data, e.lengths = e.name[:0], e.data[:0], e.lengths[:0]
	}
	switch err := e.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, false, errLongEvent
	case err != nil:
		return nil, false, err
	case len(bytes.TrimSpace(e.data)) > 0:
		return e.dispatch(), string(e.name) == "error", nil
	}
	return nil, false, io.EOF
}

// byteOrderMark precedes the replies of some services.
var byteOrderMark = []byte("\ufeff")

// A notifyingReader calls touched after each read that returns data.
type notifyingReader struct {
	r       io.Reader
	touched func()
}

func (t notifyingReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n > 0 {
		t.touched()
	}
	return n, err
}

func (e *eventReader) field(line []byte) {
	name, value, found := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case found && len(name) == 0: // comment
	case string(name) == "data":
		if len(e.lengths) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		e.lengths = append(e.lengths, len(value))
	case string(name) == "event":
		e.name = append(e.name[:0], value...)
	case string(name) == "id", string(name) == "retry":
	case e.events == 0 && len(e.stray) < maxStray:
		e.stray = append(append(e.stray, line...), '\n')
	}
}

// dispatch returns the event's data. Some services omit the empty line between events: if the data
// lines are valid JSON only when taken separately, each of them is an event.
func (e *eventReader) dispatch() []byte {
	e.events++
	if len(e.lengths) == 1 || json.Valid(e.data) {
		return e.data
	}
	var single [][]byte
	rest := e.data
	for _, n := range e.lengths {
		line := rest[:n]
		rest = rest[min(n+1, len(rest)):]
		if !json.Valid(line) && !isDone(line) {
			return e.data
		}
		single = append(single, bytes.Clone(line))
	}
	e.pending = single[1:]
	return single[0]
}

func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

// splitLines is a bufio.SplitFunc for lines that end with \n, \r\n or \r. A line that
// ends with \r is complete immediately; a following \n is skipped later.
func (e *eventReader) splitLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	begin := 0
	if e.skipLF && len(data) > 0 {
		if data[0] == '\n' {
			begin = 1
		}
		e.skipLF = false
	}
	i := bytes.IndexAny(data[begin:], "\r\n")
	switch {
	case i >= 0:
		end := begin + i
		e.skipLF = data[end] == '\r'
		return end + 1, data[begin:end], nil
	case atEOF && len(data) > begin:
		return len(data), data[begin:], nil
	}
	return begin, nil, nil
}
