package streamer

import (
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decodeAll decodes a whole stream.
func decodeAll(t testing.TB, r io.Reader) (events []Event, d *decoder) {
	t.Helper()
	d = newDecoder(r, 1<<20, "")
	for {
		e, err := d.next()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return events, d
		}
		events = append(events, e)
	}
}

// TestStreamIsReadAsTheStandardSays checks the rules in section 9.2.6 of the HTML standard, and its
// examples.
func TestStreamIsReadAsTheStandardSays(t *testing.T) {
	ev := func(id, name, data string) Event { return Event{ID: id, Name: name, Data: []byte(data)} }
	for name, c := range map[string]struct {
		in     string
		events []Event
		lastID string
	}{
		"LF":                              {"data: a\n\n", []Event{ev("", "message", "a")}, ""},
		"CR":                              {"data: a\r\rdata: b\r\r", []Event{ev("", "message", "a"), ev("", "message", "b")}, ""},
		"CRLF":                            {"data: a\r\n\r\n", []Event{ev("", "message", "a")}, ""},
		"all ends mixed":                  {"data: a\rdata: b\r\ndata: c\n\r\n", []Event{ev("", "message", "a\nb\nc")}, ""},
		"fields in any order":             {"data: a\nid: 1\nevent: x\n\n", []Event{ev("1", "x", "a")}, "1"},
		"byte order mark":                 {"\uFEFFdata: a\n\n", []Event{ev("", "message", "a")}, ""},
		"second byte order mark":          {"\uFEFF\uFEFFdata: a\n\ndata: b\n\n", []Event{ev("", "message", "b")}, ""},
		"comments":                        {": hi\n\n:\ndata: a\n:x\n\n", []Event{ev("", "message", "a")}, ""},
		"the standard's YHOO":             {"data: YHOO\ndata: +2\ndata: 10\n\n", []Event{ev("", "message", "YHOO\n+2\n10")}, ""},
		"the standard's test stream":      {": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n", []Event{ev("1", "message", "first event"), ev("", "message", "second event")}, ""},
		"the standard's empty data":       {"data\n\ndata\ndata\n\ndata:", []Event{ev("", "message", ""), ev("", "message", "\n")}, ""},
		"the standard's one space":        {"data:test\n\ndata: test\n\n", []Event{ev("", "message", "test"), ev("", "message", "test")}, ""},
		"event without data":              {"event: x\nid: 7\n\ndata: a\n\n", []Event{ev("7", "message", "a")}, "7"},
		"ID without data":                 {"id: 7\n\n", nil, "7"},
		"ID without an end":               {"id: 7\n", nil, ""},
		"ID stays":                        {"id: 7\ndata: a\n\ndata: b\n\n", []Event{ev("7", "message", "a"), ev("7", "message", "b")}, "7"},
		"ID with NUL is ignored":          {"id: 7\n\nid: 8\x009\ndata: a\n\n", []Event{ev("7", "message", "a")}, "7"},
		"last ID of an event wins":        {"id: 1\nid: 2\ndata: a\n\n", []Event{ev("2", "message", "a")}, "2"},
		"unknown fields":                  {"foo: x\nDATA: y\ndata : z\ndata: a\nbar\n\n", []Event{ev("", "message", "a")}, ""},
		"last name wins":                  {"event: x\nevent: y\ndata: a\n\n", []Event{ev("", "y", "a")}, ""},
		"empty name":                      {"event: x\nevent\ndata: a\n\n", []Event{ev("", "message", "a")}, ""},
		"cut in the middle":               {"data: a\n\nid: 2\ndata: b\n", []Event{ev("", "message", "a")}, ""},
		"not UTF-8":                       {"data: a\xffb\xe2\x82c\n\n", []Event{ev("", "message", "a\uFFFDb\uFFFDc")}, ""},
		"empty":                           {"", nil, ""},
		"a colon alone is a comment":      {":\n\n", nil, ""},
		"only the first space is removed": {"data:  a \n\n", []Event{ev("", "message", " a ")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			events, d := decodeAll(t, strings.NewReader(c.in))
			assert.Equal(t, c.events, events)
			assert.Equal(t, c.lastID, d.lastID)
			byByte, _ := decodeAll(t, iotest.OneByteReader(strings.NewReader(c.in)))
			assert.Equal(t, c.events, byByte, "byte by byte")
		})
	}
}

func TestRetryIsTakenIfItIsANumber(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"retry: 1500\n\n":                    1500 * time.Millisecond,
		"retry: 1500":                        0,
		"retry: 1e3\n\n":                     0,
		"retry: -5\n\n":                      0,
		"retry\n\n":                          0,
		"retry: 0\n\n":                       time.Millisecond,
		"retry: 99999999999999999999999\n\n": maxRetry,
		"retry: 4000000000\n\n":              maxRetry,
	} {
		_, d := decodeAll(t, strings.NewReader(in))
		assert.Equal(t, want, d.retry, "%q", in)
	}
}

func TestEventThatIsTooLongIsAnError(t *testing.T) {
	for _, in := range []string{
		"data: " + strings.Repeat("x", 200) + "\n\n",
		strings.Repeat("data: x\n", 40) + "\n",
		": " + strings.Repeat("x", 200),
	} {
		d := newDecoder(strings.NewReader(in), 100, "")
		_, err := d.next()
		require.ErrorIs(t, err, errTooLong)
		require.ErrorContains(t, err, "100 bytes")
	}
}

func TestEventEndsBeforeTheLineFeedThatMayFollow(t *testing.T) {
	r, w := io.Pipe()
	d := newDecoder(r, 100, "")
	go func() { _, _ = io.WriteString(w, "data: a\r\n\r") }() // nothing follows
	e, err := d.next()
	require.NoError(t, err)
	assert.Equal(t, "a", string(e.Data))
	require.NoError(t, r.Close())
}

var lineEnd = regexp.MustCompile("\r\n|\n|\r")

// interpret implements the standard's algorithm for a stream whose whole text is known.
func interpret(in string) (events []Event, lastID string) {
	in = string(valid([]byte(in)))
	in = strings.TrimPrefix(in, "\uFEFF")
	ends := lineEnd.FindAllStringIndex(in, -1)
	if len(ends) == 0 {
		return nil, ""
	}
	var id, name string
	var data []string
	for i, line := range lineEnd.Split(in[:ends[len(ends)-1][1]], -1) {
		if i == len(ends) {
			break // what follows the last line end
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if lastID = id; data != nil {
				events = append(events, Event{ID: id, Name: eventName(name), Data: []byte(strings.Join(data, "\n"))})
			}
			name, data = "", nil
		case field == "event":
			name = value
		case field == "data":
			data = append(data, value)
		case field == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return events, lastID
}

func FuzzDecoderFollowsTheStandard(f *testing.F) {
	f.Add("id: 1\r\ndata: a\r\rdata\n\n: c\nretry: 5\n\n")
	f.Add("\uFEFFdata: x\xff\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		checkDecoder(t, in)
	})
}

func checkDecoder(t testing.TB, in string) {
	events, d := decodeAll(t, strings.NewReader(in))
	want, lastID := interpret(in)
	require.Len(t, events, len(want), "%q", in)
	for i := range want {
		require.Equal(t, want[i].Name, events[i].Name)
		require.Equal(t, want[i].ID, events[i].ID)
		require.Equal(t, string(want[i].Data), string(events[i].Data))
	}
	require.Equal(t, lastID, d.lastID)
}

func TestDecoderFollowsTheStandardOnRandomStreams(t *testing.T) {
	words := []string{"\n", "\r", "\r\n", "\n\n", "data", "data: ", "id", "id: 5", "event: e", ":", " ", "x", "é", "\x00", "retry: 9", "foo: "}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		var b strings.Builder
		for range rng.IntN(20) {
			b.WriteString(words[rng.IntN(len(words))])
		}
		checkDecoder(t, b.String())
	}
}

func TestConnectionErrorIsReturned(t *testing.T) {
	broken := errors.New("reset by peer")
	d := newDecoder(io.MultiReader(strings.NewReader("data: a\n"), iotest.ErrReader(broken)), 100, "")
	_, err := d.next()
	require.ErrorIs(t, err, broken)
}
