package state

import (
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// history keeps the records of a run in memory, in sequence order. It grows by
// chunks, so that the millionth record costs what the first did and none is
// copied again. Records are packed: what most of them have fits 64 bytes
// without a pointer, which the garbage collector need not look into.
type history struct {
	runID    string
	restored *snapshot.Lazy // the first of them; nil for a run that is new
	chunks   []*[chunkSize]packed
	n        int // of those that are not restored

	sites     []site
	indexOf   map[site]int32 // of each in sites
	last      site           // of the latest record: calls in a loop come from one site
	lastIndex int32

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
type site struct {
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
	p := h.next()
	p.time = rec.Time.UnixNano()
	p.duration, p.elapsed, p.delay = rec.Duration, rec.Elapsed, rec.Delay
	p.site, p.nth = h.siteOf(rec)
	p.attempt, p.maxAttempts = int32(rec.Attempt), int32(rec.MaxAttempts)
	p.status, p.reason, p.stage, p.class, p.waiting = rec.Status, rec.Reason, rec.Stage, rec.Class, rec.Waiting
	if rec.WillRetry {
		p.flags |= flagWillRetry
	}
	if rec.Replayed {
		p.flags |= flagReplayed
	}
	if rec.Err != nil || rec.Detail != nil {
		p.rare = h.keepRare(rec.Err, rec.Detail)
	}
}

// appendRetry keeps what Record.Retry makes of the latest record.
func (h *history) appendRetry() {
	failed := h.packed(h.n - 1)
	p := h.next()
	*p = *failed
	p.status, p.duration = core.StatusRetrying, 0
	p.flags &^= flagWillRetry
	p.attempt++
	if p.rare > 0 && h.rarity(p).detail != nil {
		p.rare = h.keepRare(h.rarity(p).err, nil)
	}
}

// next makes room for a record.
func (h *history) next() *packed {
	if h.n%chunkSize == 0 {
		h.chunks = append(h.chunks, new([chunkSize]packed))
	}
	h.n++
	return h.packed(h.n - 1)
}

func (h *history) packed(i int) *packed { return &h.chunks[i/chunkSize][i%chunkSize] }

func (h *history) rarity(p *packed) *rare { return &h.rare[(p.rare-1)/rareSize][(p.rare-1)%rareSize] }

// siteOf returns the index of the record's site, and the number of its call
// there.
func (h *history) siteOf(rec *core.Record) (index, nth int32) {
	call, n := rec.Address.Site()
	if h.n > 1 && call == h.last.call && rec.Kind == h.last.kind && rec.Name == h.last.name {
		return h.lastIndex, int32(n)
	}
	h.last = site{rec.Kind, rec.Name, call}
	h.lastIndex = h.internSite()
	return h.lastIndex, int32(n)
}

// internSite returns the index of h.last.
func (h *history) internSite() int32 {
	if i, ok := h.indexOf[h.last]; ok {
		return i
	}
	if h.indexOf == nil {
		h.indexOf = make(map[site]int32)
	}
	i := int32(len(h.sites))
	h.sites = append(h.sites, h.last)
	h.indexOf[h.last] = i
	return i
}

func (h *history) keepRare(err error, detail *core.Detail) int32 {
	if h.rn%rareSize == 0 {
		h.rare = append(h.rare, new([rareSize]rare))
	}
	h.rare[h.rn/rareSize][h.rn%rareSize] = rare{err, detail}
	h.rn++
	return h.rn
}

// len is the number of records, those restored included.
func (h *history) len() int { return h.begin() + h.n }

// begin is the number of those restored.
func (h *history) begin() int {
	if h.restored == nil {
		return 0
	}
	return h.restored.Len()
}

// at returns the record with Seq i+1, which was not restored.
func (h *history) at(i int) core.Record {
	seq := uint64(i) + 1
	p := h.packed(i - h.begin())
	s := &h.sites[p.site]
	rec := core.Record{
		RunID: h.runID, Seq: seq, Time: time.Unix(0, p.time).UTC(),
		Address: s.call.Address(int(p.nth)), Name: s.name,
		Kind: s.kind, Status: p.status, Reason: p.reason, Stage: p.stage, Class: p.class, Waiting: p.waiting,
		Attempt: int(p.attempt), MaxAttempts: int(p.maxAttempts),
		WillRetry: p.flags&flagWillRetry != 0, Replayed: p.flags&flagReplayed != 0,
		Duration: p.duration, Elapsed: p.elapsed, Delay: p.delay,
	}
	if p.rare > 0 {
		r := h.rarity(p)
		rec.Err, rec.Detail = r.err, r.detail
	}
	return rec
}

// own are the records that were not restored.
func (h *history) own() []core.Record {
	own := make([]core.Record, h.n)
	for i := range own {
		own[i] = h.at(h.begin() + i)
	}
	return own
}
