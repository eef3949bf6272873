package streamer_test

import (
	"context"
	"iter"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// interrupted is a shelf that calls before whenever its records are read.
type interrupted struct {
	*shelf
	before func()
}

func (s interrupted) Records(ctx context.Context, id string, after uint64) iter.Seq2[record.Record, error] {
	s.before()
	return s.shelf.Records(ctx, id, after)
}

func TestHandlerThatBeginsInTheMiddleOfARunKnowsItsGeneration(t *testing.T) {
	source := newShelf()
	f := newFeed("r", source.put)
	f.open()
	f.log(4)
	h, server := serve(t, source, streamer.Options{})
	f.to = func(r record.Record) { source.put(r); h.Publish(r) }
	w := connect(t, server.URL+"/events?run=r", "")
	_, id := seqs(t, w, 5)
	f.log(1)
	_, next := seqs(t, w, 6)
	assert.Equal(t, id[:len(id)-1]+"6", next, "the same generation")

	got, _ := seqs(t, connect(t, server.URL+"/events?run=r", next[:len(next)-1]+"5"), 6)
	assert.Equal(t, []uint64{6}, got)
}

func TestRecordPublishedBeforeTheSourceIsReadIsNotAReset(t *testing.T) {
	source := newShelf()
	f := newFeed("r", source.put)
	f.open()
	f.log(4)
	before := sync.OnceFunc(func() { f.log(2); f.open(); f.log(1) })
	h, server := serve(t, interrupted{source, before}, streamer.Options{})
	f.to = func(r record.Record) { source.put(r); h.Publish(r) }
	w := connect(t, server.URL+"/events?run=r", "")
	got, _ := seqs(t, w, 9)
	assert.Equal(t, count(1, 9), got)
	f.log(1)
	got, id := seqs(t, w, 10)
	assert.Equal(t, []uint64{10}, got)

	f.log(1)
	got, _ = seqs(t, connect(t, server.URL+"/events?run=r", id), 11)
	assert.Equal(t, []uint64{11}, got)
}

func TestRunWithoutAnOpeningHasCursorsToo(t *testing.T) {
	source := newShelf()
	f := newFeed("r", source.put)
	f.log(5)
	h, server := serve(t, source, streamer.Options{})
	f.to = func(r record.Record) { source.put(r); h.Publish(r) }
	w := connect(t, server.URL+"/events?run=r", "")
	_, id := seqs(t, w, 5)
	f.log(1)
	seqs(t, w, 6)
	got, _ := seqs(t, connect(t, server.URL+"/events?run=r", id), 6)
	assert.Equal(t, []uint64{6}, got)

	g := newFeed("g", h.Publish) // this run is not in any store
	g.seq = 3
	g.log(2)
	w = connect(t, server.URL+"/events?run=g", "")
	id, name, _ := w.event(t)
	assert.Equal(t, "gap", name)
	seqs(t, w, 5)
	got, _ = seqs(t, connect(t, server.URL+"/events?run=g", id), 5)
	assert.Equal(t, []uint64{4, 5}, got)
}

func TestEventsThatOnlyTheHandlerHasAreNotSkipped(t *testing.T) {
	source := newShelf()
	f := newFeed("r", source.put)
	f.open()
	f.log(4)
	h, server := serve(t, source, streamer.Options{})
	_, id := seqs(t, connect(t, server.URL+"/events?run=r", ""), 5)
	f.to = h.Publish // the next records reach only the handler
	f.open()
	f.log(1)
	for _, after := range []string{id, ""} {
		w := connect(t, server.URL+"/events?run=r", after)
		got, _ := seqs(t, w, 7)
		assert.Equal(t, count(7-uint64(len(got))+1, 7), got)
		assert.Len(t, got, map[string]int{id: 2, "": 7}[after])
	}
	f.seq += 2
	f.log(1)
	w := connect(t, server.URL+"/events?run=r", id)
	seqs(t, w, 7)
	_, name, data := w.event(t)
	assert.Equal(t, "gap", name)
	assert.JSONEq(t, `{"run_id":"r","missed":2}`, data)
}
