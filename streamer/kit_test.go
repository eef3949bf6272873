package streamer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// serve starts a handler on a real socket.
func serve(t testing.TB, source streamer.Source, options streamer.Options) (*streamer.Handler, *httptest.Server) {
	t.Helper()
	if options.Reconnect == 0 {
		options.Reconnect = time.Millisecond
	}
	h, err := streamer.New(source, options)
	require.NoError(t, err)
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		server.Close()
	})
	return h, server
}

// feed is a run whose records are created by a test.
type feed struct {
	runID string
	to    func(record.Record)

	mu         sync.Mutex
	seq        uint64
	generation uint64
	at         time.Time
}

func newFeed(runID string, to ...func(record.Record)) *feed {
	return &feed{runID: runID, at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), to: func(r record.Record) {
		for _, f := range to {
			f(r)
		}
	}}
}

// publish gives a record the next number and publishes it.
func (f *feed) publish(r record.Record) record.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	f.at = f.at.Add(time.Millisecond)
	r.RunID, r.Seq, r.Generation, r.Time = f.runID, f.seq, f.generation, f.at
	f.to(r)
	return r
}

// open begins the next generation of the run.
func (f *feed) open() {
	f.mu.Lock()
	f.generation++
	f.mu.Unlock()
	f.publish(record.Record{Kind: record.KindRun, Status: record.StatusStarted})
}

func (f *feed) end(status record.Status) {
	f.publish(record.Record{Kind: record.KindRun, Status: status})
}

// log publishes n log lines.
func (f *feed) log(n int) {
	for range n {
		f.publish(record.Record{Kind: record.KindLog, Status: record.StatusRecorded, Detail: &record.Detail{Message: "a line"}})
	}
}

// call publishes a record of a call.
func (f *feed) call(address string, status record.Status, change ...func(*record.Record)) record.Record {
	a, err := record.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	r := record.Record{Address: a, Name: a.Tag(), Kind: record.KindTool, Status: status, MaxAttempts: 3}
	for _, c := range change {
		c(&r)
	}
	return f.publish(r)
}

// shelf is an in-memory source.
type shelf struct {
	mu   sync.Mutex
	runs map[string][]record.Record
	open bool   // whether a process has the runs open; if not, they are interrupted
	read func() // called after the records of a run were read
}

func newShelf() *shelf { return &shelf{runs: make(map[string][]record.Record)} }

func (s *shelf) put(r record.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[r.RunID] = append(s.runs[r.RunID], r)
}

// lose removes the records after the one with the given number, as a crash may.
func (s *shelf) lose(runID string, after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[runID] = slices.Clone(s.runs[runID][:after])
}

func (s *shelf) List(_ context.Context, q streamer.Query) (streamer.RunPage, error) {
	var infos []streamer.RunInfo
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, records := range s.runs {
		infos = append(infos, s.info(id, records))
	}
	return streamer.PageOf(infos, q)
}

func (s *shelf) info(id string, records []record.Record) streamer.RunInfo {
	last, status := records[len(records)-1], "interrupted"
	if s.open {
		status = "running"
	}
	return streamer.RunInfo{RunID: id, Status: status, Created: records[0].Time, Updated: last.Time, LastSeq: last.Seq, Tags: []string{"shelf"}}
}

func (s *shelf) Artifact(context.Context, string) ([]byte, error) { return nil, streamer.ErrNotFound }

func (s *shelf) Run(_ context.Context, id string) (streamer.RunInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.runs[id]) == 0 {
		return streamer.RunInfo{}, streamer.ErrNotFound
	}
	return s.info(id, s.runs[id]), nil
}

func (s *shelf) Records(_ context.Context, id string, after uint64) iter.Seq2[record.Record, error] {
	s.mu.Lock()
	records := s.runs[id]
	s.mu.Unlock()
	return func(yield func(record.Record, error) bool) {
		for _, r := range records {
			if r.Seq > after && !yield(r, nil) {
				return
			}
		}
		if s.read != nil {
			s.read()
		}
	}
}

// wire is a connection to the event stream, read line by line.
type wire struct {
	*http.Response
	lines *bufio.Reader
}

func connect(t testing.TB, url, lastEventID string) *wire {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	return wrap(t, resp)
}

func wrap(t testing.TB, resp *http.Response) *wire {
	t.Helper()
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &wire{resp, bufio.NewReader(resp.Body)}
}

// event reads up to and including the next block of lines that contains data or an ID.
func (w *wire) event(t testing.TB) (id, name, data string) {
	t.Helper()
	for {
		fields := w.block(t)
		if fields["data"] != "" || fields["id"] != "" {
			return fields["id"], fields["event"], fields["data"]
		}
	}
}

// retry reads the line at the beginning of a stream, and returns its value.
func (w *wire) retry(t testing.TB) string {
	t.Helper()
	line, err := w.lines.ReadString('\n')
	require.NoError(t, err)
	value, ok := strings.CutPrefix(line, "retry: ")
	require.True(t, ok, line)
	return strings.TrimSpace(value)
}

// block reads the lines up to the next empty line.
func (w *wire) block(t testing.TB) map[string]string {
	t.Helper()
	fields := make(map[string]string)
	for {
		line, err := w.lines.ReadString('\n')
		require.NoError(t, err)
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return fields
		}
		name, value, _ := strings.Cut(line, ": ")
		fields[name] = value
	}
}

// get requests a URL, decodes the JSON response into into, and returns the HTTP status.
func get(t testing.TB, url string, into any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return do(t, req, into)
}

func do(t testing.TB, req *http.Request, into any) int {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "application/json", resp.Header.Get("Content-Type"), "%s", data)
	require.NoError(t, json.Unmarshal(data, into), "%s", data)
	return resp.StatusCode
}

// seqOf returns the number of the record that an event contains.
func seqOf(t testing.TB, e streamer.Event) uint64 {
	t.Helper()
	var rec struct {
		Seq uint64 `json:"seq"`
	}
	require.NoError(t, e.Decode(&rec))
	return rec.Seq
}

// recordOf returns the part of an event ID that identifies the record: the ID without
// the creation time of its run.
func recordOf(id string) string { return id[strings.IndexByte(id, '.')+1:] }

// number returns the record number in the ID of an event.
func number(t testing.TB, e streamer.Event) uint64 {
	t.Helper()
	_, digits, _ := strings.Cut(e.ID, "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	require.NoError(t, err)
	return n
}

// refusal is the body of a response with an error.
type refusal struct {
	Error struct{ Code, Message string }
}

func (r refusal) String() string { return fmt.Sprintf("%s: %s", r.Error.Code, r.Error.Message) }

func (s *shelf) Answered(context.Context, string) ([]string, error) { return nil, nil }
