package streamer_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// world is a random run with its servers and clients. It knows the true records of the run, with
// which the streams are compared.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	source *shelf // nil without one

	mu      sync.Mutex // guards the fields below
	handler *streamer.Handler
	records []record.Record // the true records of the run
	lost    map[string]bool // messages of the records that were lost in crashes
	lostTo  uint64          // the highest number of a lost record
	serial  int
	opening uint64 // the generation
	calm    bool   // connections are no longer cut
	unheard bool   // the current handler has no record of the run yet

	calling []record.Record // the newest record of each call that has not ended
	began   int             // number of calls
}

// opened returns the generation of the record with the given number.
func (w *world) opened(seq uint64) (generation string) {
	return strconv.FormatUint(w.records[seq-1].Generation, 10)
}

// add creates, stores and publishes the next record of the run.
func (w *world) add(r record.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	r.RunID, r.Seq, r.Generation, r.Time = "r", uint64(len(w.records)+1), w.opening, time.Now().Add(time.Duration(w.serial))
	r.Detail = &record.Detail{Message: strconv.Itoa(w.serial), Usage: record.Usage{InputTokens: w.serial}}
	w.records = append(w.records, r)
	if w.source != nil {
		w.source.put(r)
	}
	w.handler.Publish(r)
	w.unheard = false
}

// open begins the next generation of the run. It abandons the calls that have not
// ended.
func (w *world) open() {
	w.calling = nil
	w.opening++
	w.add(record.Record{Kind: record.KindRun, Status: record.StatusStarted})
}

// step adds a random record: a record of a call, a log line, or the end of an opening. Each call
// goes through the same states as a real one, and has its own address.
func (w *world) step(dice *rand.Rand) {
	if len(w.calling) == 0 || dice.IntN(4) == 0 {
		switch dice.IntN(3) {
		case 0:
			w.add(record.Record{Kind: record.KindLog, Status: record.StatusRecorded})
		case 1:
			if dice.IntN(5) == 0 {
				w.add(record.Record{Kind: record.KindRun, Status: record.StatusInterrupted})
				return
			}
			fallthrough
		default:
			w.began++
			a, err := record.ParseAddress(fmt.Sprintf("c%d", w.began))
			require.NoError(w.t, err)
			r := record.Record{Address: a, Name: a.Tag(), Kind: record.KindTool, Status: record.StatusStarted, MaxAttempts: 3}
			w.calling = append(w.calling, r)
			w.add(r)
		}
		return
	}
	i := dice.IntN(len(w.calling))
	r := &w.calling[i]
	switch {
	case r.Status == record.StatusStarted && dice.IntN(2) == 0:
		r.Status, r.WillRetry, r.Delay = record.StatusFailed, true, time.Second
	case r.Status == record.StatusStarted:
		r.Status = record.StatusCompleted
		if dice.IntN(3) == 0 {
			r.Status = record.StatusFailed
		}
		w.add(*r)
		w.calling = slices.Delete(w.calling, i, i+1)
		return
	case r.Status == record.StatusFailed:
		r.Status, r.WillRetry, r.Duration, r.Detail = record.StatusRetrying, false, 0, nil
		r.Attempt++
	case r.Status == record.StatusRetrying:
		r.Status = record.StatusStarted
	}
	w.add(*r)
}

// crash loses the last n records of the run.
func (w *world) crash(n int) {
	w.mu.Lock()
	kept := len(w.records) - n
	for _, r := range w.records[kept:] {
		w.lost[r.Message()] = true
		w.lostTo = max(w.lostTo, r.Seq)
	}
	w.records = slices.Clone(w.records[:kept])
	if w.source != nil {
		w.source.lose("r", kept)
	}
	w.mu.Unlock()
}

// restart replaces the handler, and closes the old one.
func (w *world) restart(history int) {
	var source streamer.Source
	if w.source != nil {
		source = w.source
	}
	h, err := streamer.New(source, streamer.Options{
		History: history, Heartbeat: 10 * time.Millisecond, Reconnect: time.Millisecond,
		Authorize: func(*http.Request) (streamer.Access, error) { return streamer.Access{}, nil },
	})
	require.NoError(w.t, err)
	w.mu.Lock()
	before := w.handler
	w.handler, w.unheard = h, true
	w.mu.Unlock()
	if before != nil {
		require.NoError(w.t, before.Close(w.t.Context()))
	}
}

// RoundTrip serves a request without a network, and may cut the response off at any byte.
func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.source == nil && w.unheard {
		return nil, errors.New("connection refused") // otherwise the handler would answer that the run does not exist, and the client would stop
	}
	most := int64(1) << 60
	if !w.calm && w.rng.IntN(4) > 0 {
		most = w.rng.Int64N(3000)
	}
	from, to := io.Pipe()
	a := &answering{header: make(http.Header), to: to, begun: make(chan struct{})}
	ctx, cancel := context.WithCancel(req.Context())
	req = req.Clone(ctx)
	h := w.handler
	go func() {
		defer cancel()
		h.ServeHTTP(a, req)
		_ = to.Close()
	}()
	w.mu.Unlock()
	<-a.begun
	w.mu.Lock()
	return &http.Response{StatusCode: a.status, Header: a.header, Request: req, Body: &cutBody{from, most, cancel}}, nil
}

// answering is a response writer whose output is read while it is written.
type answering struct {
	header http.Header
	status int
	to     *io.PipeWriter
	begun  chan struct{}
}

func (a *answering) Header() http.Header { return a.header }

func (a *answering) WriteHeader(status int) {
	a.status = status
	close(a.begun)
}

func (a *answering) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return a.to.Write(p)
}

func (a *answering) Flush() {}

// cutBody is a response body that ends early.
type cutBody struct {
	*io.PipeReader
	left   int64
	cancel context.CancelFunc
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.PipeReader.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (b *cutBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// watcher is a client, and what it has received.
type watcher struct {
	world  *world
	picks  func(*record.Record) bool
	query  string
	has    map[uint64]string // the messages of the records that it has received, by record number
	passed map[uint64]bool   // the numbers of records that a gap has reported
	last   uint64            // the record number in its cursor
	opened string            // the generation in its cursor
	resets int
}

// watch checks every event as it arrives.
func (c *watcher) watch(ctx context.Context) error {
	client := &streamer.Client{
		URL: "http://localhost/?run=r" + c.query, MaxDelay: 2 * time.Millisecond, HTTPClient: &http.Client{Transport: c.world},
	}
	for e, err := range client.Events(ctx) {
		if err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
		if err := c.take(e); err != nil {
			return fmt.Errorf("%s %s %s: %w", e.ID, e.Name, e.Data, err)
		}
	}
	return errors.New("ended")
}

func (c *watcher) take(e streamer.Event) error {
	w := c.world
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Name {
	case "reset":
		last := c.last
		due := w.lost[c.has[c.last]]
		if c.picks != nil || w.source == nil {
			// An event "cursor" may have moved the client's cursor to a lost record, or the
			// generation in the client's cursor may no longer be known.
			due = due || c.last < w.lostTo || c.opened != w.opened(uint64(len(w.records)))
		}
		c.resets++
		c.has, c.passed, c.last, c.opened = make(map[uint64]string), make(map[uint64]bool), 0, ""
		if !due {
			return fmt.Errorf("unexpected reset after record %d of %d", last, len(w.records))
		}
		return nil
	case "gap":
		if w.source != nil {
			return errors.New("unexpected gap: the source has all records")
		}
		var gap struct{ Missed uint64 }
		if err := e.Decode(&gap); err != nil {
			return err
		}
		n := numberOf(e.ID)
		if gap.Missed == 0 || gap.Missed > n {
			return errors.New("the gap is larger than the run")
		}
		if c.picks == nil && c.last+gap.Missed != n {
			return fmt.Errorf("after %d", c.last)
		}
		for m := n - gap.Missed + 1; m <= n; m++ {
			c.passed[m] = true
		}
		c.last, c.opened = n, generationOf(e.ID)
		return nil
	}
	var rec struct {
		Seq     uint64
		Message string
	}
	if err := e.Decode(&rec); err != nil {
		return err
	}
	if rec.Seq != numberOf(e.ID) {
		return errors.New("the number of the record differs from that in the ID")
	}
	if rec.Seq <= c.last {
		return fmt.Errorf("the record does not follow record %d", c.last)
	}
	if c.picks == nil && rec.Seq != c.last+1 {
		return fmt.Errorf("records are missing after record %d", c.last)
	}
	if !w.lost[rec.Message] {
		if rec.Seq > uint64(len(w.records)) || w.records[rec.Seq-1].Message() != rec.Message {
			return errors.New("there is no such record")
		}
		if want := fmt.Sprintf("%s-%d", w.opened(rec.Seq), rec.Seq); recordOf(e.ID) != want && w.source != nil {
			return fmt.Errorf("the ID is not %s", want)
		}
	}
	c.has[rec.Seq], c.last, c.opened = rec.Message, rec.Seq, generationOf(e.ID)
	return nil
}

func numberOf(id string) uint64 {
	_, digits, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseUint(digits, 10, 64)
	return n
}

func generationOf(id string) string {
	generation, _, _ := strings.Cut(recordOf(id), "-")
	return generation
}

// settled checks that, for each record of the run, the client has received it or was told that it
// missed it.
func (c *watcher) settled() error {
	w := c.world
	for i := range w.records {
		r := &w.records[i]
		got, ok := c.has[r.Seq]
		picked := c.picks == nil || c.picks(r)
		switch {
		case picked && !ok && !c.passed[r.Seq]:
			return fmt.Errorf("%d is missing", r.Seq)
		case ok && (!picked || got != r.Message()):
			return fmt.Errorf("record %d is %s, want %s", r.Seq, got, r.Message())
		}
		delete(c.has, r.Seq)
	}
	if len(c.has) > 0 {
		return fmt.Errorf("the client has records that the run does not have: %v", c.has)
	}
	return nil
}

var long = flag.Bool("long", false, "run the long form of the campaigns, see CONTRIBUTING")

func TestStreamsMatchTheRunWhateverHappens(t *testing.T) {
	seeds := uint64(10)
	if *long {
		seeds = 300
	}
	for seed := range seeds {
		for _, stored := range []bool{true, false} {
			t.Run(fmt.Sprintf("seed %d, stored %t", seed, stored), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { happen(t, seed, stored) })
			})
		}
	}
}

// happen executes one random run.
func happen(t *testing.T, seed uint64, stored bool) {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), lost: make(map[string]bool)}
	if stored {
		w.source = newShelf()
	}
	dice := rand.New(rand.NewPCG(seed, 2)) // w.rng is for cutting responses, in many goroutines
	history := func() int { return []int{1, 3, 10, 40, 1000}[dice.IntN(5)] }
	w.restart(history())
	w.open()

	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	clients := []*watcher{
		{},
		{},
		{},
		{query: "&status=failed", picks: func(r *record.Record) bool { return r.Status == record.StatusFailed }},
		{query: "&type=run", picks: func(r *record.Record) bool { return r.Kind == record.KindRun }},
	}
	failures := make([]error, len(clients))
	for i, c := range clients {
		c.world, c.has, c.passed = w, make(map[uint64]string), make(map[uint64]bool)
		after := time.Duration(dice.IntN(50)) * time.Millisecond
		watching.Go(func() {
			time.Sleep(after) //nolint:forbidigo // by the clock of the bubble
			failures[i] = c.watch(ctx)
		})
	}
	for range 60 {
		switch n := dice.IntN(20); {
		case n == 0 && stored:
			w.restart(history())
		case n == 1:
			w.restart(history())
			w.open()
		case n == 2:
			w.open()
		case n == 3 && len(w.records) > 1:
			w.crash(1 + dice.IntN(min(10, len(w.records)-1)))
			if dice.IntN(2) == 0 {
				w.restart(history())
			}
			w.open()
		default:
			for range dice.IntN(15) {
				w.step(dice)
			}
		}
		if dice.IntN(3) > 0 {
			time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond) //nolint:forbidigo // by the clock of the bubble
		}
	}
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.restart(1000) // every client must reconnect, and is not cut off again
	w.open()
	time.Sleep(time.Minute) //nolint:forbidigo // by the clock of the bubble
	w.check()
	cancel()
	watching.Wait()
	for i, c := range clients {
		require.NoError(t, failures[i], "client %d", i)
		require.NoError(t, c.settled(), "client %d, %d resets", i, c.resets)
	}
	require.NoError(t, w.handler.Close(t.Context()))
}

// check compares the snapshot of the run with its true records.
func (w *world) check() {
	w.mu.Lock()
	h := w.handler
	w.mu.Unlock()
	rr := httptest.NewRecorder()
	h.ServeHTTP(rr, httptest.NewRequest(http.MethodGet, "/api/runs/r", nil))
	require.Equal(w.t, 200, rr.Code, rr.Body)
	var got struct {
		Cursor  string
		Run     streamer.RunState
		Records []struct {
			Seq     uint64
			Message string
		}
		Omitted uint64
	}
	require.NoError(w.t, json.Unmarshal(rr.Body.Bytes(), &got))
	for i, r := range got.Records {
		require.Equal(w.t, got.Omitted+uint64(i)+1, r.Seq)
		require.Equal(w.t, w.records[r.Seq-1].Message(), r.Message)
	}
	require.EqualValues(w.t, len(w.records), got.Omitted+uint64(len(got.Records)))
	require.Equal(w.t, fmt.Sprintf("%s-%d", w.opened(uint64(len(w.records))), len(w.records)), recordOf(got.Cursor))
	require.Equal(w.t, w.source == nil, got.Run.Partial)
	if !got.Run.Partial {
		require.Equal(w.t, w.calls(), got.Run.Calls)
	}
}

// calls counts the calls in the records.
func (w *world) calls() (c streamer.Calls) {
	begun, last := make(map[record.Address]bool), make(map[record.Address]record.Record)
	stopped, highest := make(map[record.Address]bool), make(map[record.Address]int)
	for _, r := range w.records {
		delete(stopped, r.Address)
		switch {
		case r.Kind == record.KindRun:
			for a := range last {
				stopped[a] = true
			}
			clear(last)
			continue
		case !r.Kind.IsCall() || r.Kind.IsParallel():
			continue
		case r.Status == record.StatusStarted:
			c.Attempts++
			switch {
			case r.Attempt < highest[r.Address]:
				c.Repeats++
			case r.Attempt > 0:
				c.Retries++
			}
			begun[r.Address], highest[r.Address] = true, max(highest[r.Address], r.Attempt+1)
		case r.Status == record.StatusCompleted:
			c.Completed++
		case r.Status == record.StatusFailed && !r.WillRetry:
			c.Failed++
		}
		if last[r.Address] = r; r.IsOutcome() {
			delete(last, r.Address)
		}
	}
	for _, r := range last {
		c.Active++
		if r.Status == record.StatusRetrying {
			c.Waiting++
		}
	}
	c.Started, c.Stopped = len(begun), len(stopped)
	return c
}
