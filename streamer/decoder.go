package streamer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// decoder reads an event stream as specified by the HTML standard (section 9.2.6, "Interpreting an
// event stream"). It never waits for more bytes at the end of a line: a line that ends in CR is
// complete at once, even though an LF may follow.
type decoder struct {
	r       *bufio.Reader
	max     int  // maximum size of an event in bytes
	begun   bool // the byte order mark has been looked for
	afterCR bool // the previous line ended in CR, so if an LF follows, it belongs to that line

	line   []byte
	id     string        // ID of the event being read
	lastID string        // ID of the last complete event
	retry  time.Duration // the last delay that the server asked for; 0 if none
}

// errTooLong means that an event is longer than the client allows.
var errTooLong = errors.New("streamer: the event is too long")

func newDecoder(r io.Reader, most int, lastID string) *decoder {
	return &decoder{r: bufio.NewReader(r), max: most, lastID: lastID, id: lastID}
}

// next returns the next event that has data. An event with an ID but no data only moves lastID. An
// event is ignored if the stream ends before the empty line that would complete it.
func (d *decoder) next() (Event, error) {
	var name string
	var data []byte
	size, some := 0, false
	for {
		if err := d.readLine(d.max - size); err != nil {
			return Event{}, err
		}
		size += len(d.line)
		if len(d.line) == 0 {
			d.lastID = d.id
			if some {
				return Event{ID: d.lastID, Name: eventName(name), Data: valid(data[:len(data)-1])}, nil
			}
			name, data, size, some = "", nil, 0, false
			continue
		}
		field, value, _ := bytes.Cut(d.line, []byte(":"))
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
		switch string(field) {
		case "event":
			name = string(valid(value))
		case "data":
			data, some = append(append(data, value...), '\n'), true
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				d.id = string(valid(value))
			}
		case "retry":
			d.setRetry(value)
		}
	}
}

// eventName returns the name of an event, which is "message" if the stream gives no name.
func eventName(name string) string {
	if name == "" {
		return "message"
	}
	return name
}

// maxRetry is the longest delay that a server may ask for.
const maxRetry = 5 * time.Minute

func (d *decoder) setRetry(value []byte) {
	if len(value) == 0 || bytes.ContainsFunc(value, func(c rune) bool { return c < '0' || c > '9' }) {
		return
	}
	ms, err := strconv.ParseUint(string(value), 10, 32)
	if err != nil || time.Duration(ms)*time.Millisecond > maxRetry {
		d.retry = maxRetry
		return
	}
	d.retry = max(time.Millisecond, time.Duration(ms)*time.Millisecond)
}

// readLine reads a line of at most the given number of bytes into d.line.
func (d *decoder) readLine(most int) error {
	if !d.begun {
		d.begun = true
		if mark, err := d.r.Peek(1); err == nil && mark[0] == 0xEF {
			if mark, err = d.r.Peek(3); err == nil && string(mark) == "\uFEFF" {
				_, _ = d.r.Discard(3)
			}
		}
	}
	d.line = d.line[:0]
	for {
		chunk, err := d.chunk()
		if err != nil {
			return err
		}
		end := bytes.IndexAny(chunk, "\r\n")
		text := chunk
		if end >= 0 {
			text = chunk[:end]
		}
		if len(d.line)+len(text) > most {
			return fmt.Errorf("%w: it has more than %d bytes", errTooLong, d.max)
		}
		d.line = append(d.line, text...)
		if end < 0 {
			_, _ = d.r.Discard(len(chunk))
			continue
		}
		d.afterCR = chunk[end] == '\r'
		_, _ = d.r.Discard(end + 1)
		return nil
	}
}

// chunk returns the bytes that have arrived but have not been read yet. There is at least one, and
// the first one is not the LF of a CRLF.
func (d *decoder) chunk() ([]byte, error) {
	for {
		if _, err := d.r.Peek(1); err != nil {
			return nil, err
		}
		chunk, _ := d.r.Peek(d.r.Buffered())
		lf := d.afterCR && chunk[0] == '\n'
		d.afterCR = false
		if !lf {
			return chunk, nil
		}
		_, _ = d.r.Discard(1)
	}
}

// valid returns b with U+FFFD in place of bytes that are not valid UTF-8.
func valid(b []byte) []byte { return bytes.ToValidUTF8(b, []byte("\uFFFD")) }
