package state

import (
	"time"

	"github.com/reprise-go/reprise/core"
)

// history keeps the records of a run in sequence order. It grows by chunks,
// so that the millionth record costs what the first did and none is copied
// again. Records are packed: what most of them have fits 64 bytes without a
// pointer, which the garbage collector need not look into.
type history struct {
	runID  string
	chunks [][]packed
	n      int

	sites    []site // what records of one call site share
	siteOf   map[siteKey]int32
	lastKey  siteKey // calls in a loop come from one site
	lastSite int32

	rare []*[rareSize]rare // errors and details; few records have one
	rn   int32
}

const (
	chunkSize = 256
	rareSize  = 64
)

// packed is a record without what it shares with others of its site.
type packed struct {
	time        int64 // Unix, in nanoseconds
	duration    time.Duration
	elapsed     time.Duration
	delay       time.Duration
	site        int32
	nth         int32
	attempt     int32
	maxAttempts int32
	rare        int32 // from 1; 0 for none
	status      core.Status
	reason      core.Reason
	stage       core.Stage
	class       core.Class
	waiting     core.Source
	flags       uint8
}

const (
	flagWillRetry = 1 << iota
	flagReplayed
)

// site is what the records of one actor called from one place share.
type site = siteKey

type siteKey struct {
	kind core.Kind
	name string
	call core.CallSite
}

type rare struct {
	err    error
	detail *core.Detail
}

// append keeps rec under the next Seq, from 1.
func (h *history) append(rec *core.Record) {
	if h.n%chunkSize == 0 {
		h.chunks = append(h.chunks, make([]packed, 0, chunkSize))
	}
	h.n++
	call, nth := rec.Address.Site()
	p := packed{
		time: rec.Time.UnixNano(), duration: rec.Duration, elapsed: rec.Elapsed, delay: rec.Delay,
		site: h.siteIndex(siteKey{rec.Kind, rec.Name, call}), nth: int32(nth),
		attempt: int32(rec.Attempt), maxAttempts: int32(rec.MaxAttempts),
		status: rec.Status, reason: rec.Reason, stage: rec.Stage, class: rec.Class, waiting: rec.Waiting,
	}
	if rec.WillRetry {
		p.flags |= flagWillRetry
	}
	if rec.Replayed {
		p.flags |= flagReplayed
	}
	if rec.Err != nil || rec.Detail != nil {
		p.rare = h.keepRare(rare{rec.Err, rec.Detail})
	}
	last := &h.chunks[len(h.chunks)-1]
	*last = append(*last, p)
}

func (h *history) siteIndex(key siteKey) int32 {
	if h.siteOf != nil && key == h.lastKey {
		return h.lastSite
	}
	i, ok := h.siteOf[key]
	if !ok {
		if h.siteOf == nil {
			h.siteOf = make(map[siteKey]int32)
		}
		i = int32(len(h.sites))
		h.sites = append(h.sites, key)
		h.siteOf[key] = i
	}
	h.lastKey, h.lastSite = key, i
	return i
}

func (h *history) keepRare(r rare) int32 {
	if h.rn%rareSize == 0 {
		h.rare = append(h.rare, new([rareSize]rare))
	}
	h.rare[h.rn/rareSize][h.rn%rareSize] = r
	h.rn++
	return h.rn
}

func (h *history) len() int { return h.n }

// at returns the record with Seq i+1.
func (h *history) at(i int) core.Record {
	p := &h.chunks[i/chunkSize][i%chunkSize]
	s := &h.sites[p.site]
	rec := core.Record{
		RunID: h.runID, Seq: uint64(i) + 1, Time: time.Unix(0, p.time).UTC(),
		Address: s.call.Address(int(p.nth)), Name: s.name,
		Kind: s.kind, Status: p.status, Reason: p.reason, Stage: p.stage, Class: p.class, Waiting: p.waiting,
		Attempt: int(p.attempt), MaxAttempts: int(p.maxAttempts),
		WillRetry: p.flags&flagWillRetry != 0, Replayed: p.flags&flagReplayed != 0,
		Duration: p.duration, Elapsed: p.elapsed, Delay: p.delay,
	}
	if p.rare > 0 {
		r := &h.rare[(p.rare-1)/rareSize][(p.rare-1)%rareSize]
		rec.Err, rec.Detail = r.err, r.detail
	}
	return rec
}

func (h *history) records() []core.Record {
	all := make([]core.Record, h.n)
	for i := range all {
		all[i] = h.at(i)
	}
	return all
}
