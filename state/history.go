package state

import (
	"sort"
	"time"

	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// history keeps a run's records in memory, in sequence order. It grows in chunks, so that adding
// the millionth record costs as much as adding the first, and no record is copied again. Records
// are packed: the fields that most records use fit into 64 bytes, which contain no pointers, so
// the garbage collector does not scan them. The record of an attempt's end and the retrying record
// that follows it are packed as one. The record of the attempt's start is packed with them if no
// other record came in between.
type history struct {
	runID      string
	generation uint64
	restored   *snapshot.Run // the restored records, which come first; nil for a new run
	n          int           // the number of records that are not restored

	chunks []*[chunkSize]packedRecords
	firsts []int // the number of records before each chunk
	packs  int   // the number of packs in the chunks
	latest *packedRecords

	sites     []site
	indexOf   map[site]int32 // the index of each site in sites
	last      site           // the latest record's site, since calls in a loop share one site
	lastIndex int32

	rare    []*[rareSize]rareFields // errors and details; few records have one
	numRare int32
}

const (
	chunkSize = 256
	rareSize  = 64
)

// packedRecords holds one to three consecutive records, without the fields that all records of
// their site share.
type packedRecords struct {
	time        int64 // Unix, in nanoseconds
	duration    time.Duration
	elapsed     time.Duration
	delay       time.Duration
	site        int32
	nth         int32
	attempt     int32
	maxAttempts int32
	rare        int32 // the number of its rareFields, from 1; 0 if it has none
	ordinal     int32
	status      record.Status
	reason      record.Reason
	stage       record.Stage
	class       record.Class
	waiting     record.Source
	flags       uint8
}

const (
	flagWillRetry = 1 << iota // the retrying record follows
	flagReplayed
	flagBegun // the started record of the same attempt comes directly before
)

// site holds the fields shared by the records of one actor that is called from one place.
type site struct {
	kind record.Kind
	name string
	call callsite.Site
}

type rareFields struct {
	err    error
	detail *record.Detail
}

// append adds rec, which has the next Seq. If rec has WillRetry set, append also adds the retrying
// record that follows it.
func (h *history) append(rec *record.Record) {
	site, nth := h.siteOf(rec)
	p := h.latest
	switch {
	case p == nil:
		p = h.next()
	case p.isStartOf(rec, site, nth):
		p.flags = flagBegun
	default:
		p = h.next()
	}
	p.site, p.nth, p.ordinal = site, nth, int32(rec.Ordinal)
	p.attempt, p.maxAttempts = int32(rec.Attempt), int32(rec.MaxAttempts)
	p.time = rec.Time.UnixNano()
	p.duration, p.elapsed, p.delay = rec.Duration, rec.Elapsed, rec.Delay
	p.status, p.reason, p.stage, p.class, p.waiting = rec.Status, rec.Reason, rec.Stage, rec.Class, rec.DelaySource
	h.n++
	if rec.WillRetry {
		p.flags |= flagWillRetry
		h.n++
	}
	if rec.Replayed {
		p.flags |= flagReplayed
	}
	if rec.Err != nil || rec.Detail != nil {
		p.rare = h.keepRare(rec)
	}
}

// isStartOf reports whether p is the started record of the attempt that rec
// ends, and can be derived from rec.
func (p *packedRecords) isStartOf(rec *record.Record, site, nth int32) bool {
	return p.status == record.StatusStarted && rec.Status != record.StatusStarted && !rec.Replayed &&
		*p == packStarted(rec.Time.UnixNano()-int64(rec.Duration), site, nth, rec.Ordinal, int32(rec.Attempt), int32(rec.MaxAttempts))
}

// next returns space for another pack.
func (h *history) next() *packedRecords {
	i := h.packs % chunkSize
	if i == 0 {
		h.chunks = append(h.chunks, new([chunkSize]packedRecords))
		h.firsts = append(h.firsts, h.n)
	}
	h.packs++
	h.latest = &h.chunks[len(h.chunks)-1][i]
	return h.latest
}

// siteOf returns the index of the record's site, and the number of the record's call at that site.
func (h *history) siteOf(rec *record.Record) (index, nth int32) {
	address := callsite.Call(rec.Address)
	call, n := address.Site(), address.Nth()
	if h.packs > 0 && call == h.last.call && rec.Kind == h.last.kind && rec.Name == h.last.name {
		return h.lastIndex, int32(n)
	}
	h.last = site{rec.Kind, rec.Name, call}
	h.lastIndex = h.internSite()
	return h.lastIndex, int32(n)
}

// internSite returns the index of h.last in h.sites. It adds the site if necessary.
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

func (h *history) keepRare(rec *record.Record) int32 {
	if h.numRare%rareSize == 0 {
		h.rare = append(h.rare, new([rareSize]rareFields))
	}
	h.rare[h.numRare/rareSize][h.numRare%rareSize] = rareFields{rec.Err, rec.Detail}
	h.numRare++
	return h.numRare
}

// len returns the number of records, including the restored ones.
func (h *history) len() int { return h.numRestored() + h.n }

// numRestored returns the number of restored records.
func (h *history) numRestored() int {
	if h.restored == nil {
		return 0
	}
	return h.restored.Len()
}

// at returns the record with Seq i+1, which must not be a restored one.
func (h *history) at(i int) record.Record {
	own := i - h.numRestored()
	chunk := sort.SearchInts(h.firsts, own+1) - 1
	packs, end, j := h.chunks[chunk], h.n, (h.packs-1)%chunkSize
	if chunk+1 < len(h.chunks) {
		end, j = h.firsts[chunk+1], chunkSize-1
	}
	for ; end-packs[j].records() > own; j-- { // usually, i is one of the latest records
		end -= packs[j].records()
	}
	rec := h.unpack(&packs[j], own-(end-packs[j].records()))
	rec.Seq = uint64(i) + 1
	return rec
}

// records returns how many records p holds.
func (p *packedRecords) records() int {
	n := 1
	if p.flags&flagBegun != 0 {
		n++
	}
	if p.flags&flagWillRetry != 0 {
		n++
	}
	return n
}

// unpack returns record i of the records that are packed in p, counting from 0. It does not set
// Seq.
func (h *history) unpack(p *packedRecords, i int) record.Record {
	if p.flags&flagBegun == 0 {
		return h.unpackEnd(p, i)
	}
	if i > 0 {
		return h.unpackEnd(p, i-1)
	}
	begun := packStarted(p.time-int64(p.duration), p.site, p.nth, int(p.ordinal), p.attempt, p.maxAttempts)
	return h.unpackEnd(&begun, 0)
}

// packStarted packs the started record of an attempt.
func packStarted(at int64, site, nth int32, ordinal int, attempt, maxAttempts int32) packedRecords {
	return packedRecords{
		time: at, site: site, nth: nth, ordinal: int32(ordinal), attempt: attempt, maxAttempts: maxAttempts, status: record.StatusStarted,
	}
}

// unpackEnd returns the end of an attempt, or any other record that p holds. With i = 1 it
// returns the retrying record that follows.
func (h *history) unpackEnd(p *packedRecords, i int) record.Record {
	s := &h.sites[p.site]
	rec := record.Record{
		RunID: h.runID, Generation: h.generation, Time: time.Unix(0, p.time).UTC(), Ordinal: int(p.ordinal),
		Address: record.Address(s.call.Call(int(p.nth))), Name: s.name,
		Kind: s.kind, Status: p.status, Reason: p.reason, Stage: p.stage, Class: p.class, DelaySource: p.waiting,
		Attempt: int(p.attempt), MaxAttempts: int(p.maxAttempts),
		WillRetry: p.flags&flagWillRetry != 0, Replayed: p.flags&flagReplayed != 0,
		Duration: p.duration, Elapsed: p.elapsed, Delay: p.delay,
	}
	if p.rare > 0 {
		r := &h.rare[(p.rare-1)/rareSize][(p.rare-1)%rareSize]
		rec.Err, rec.Detail = r.err, r.detail
	}
	if i > 0 {
		return rec.Retrying()
	}
	return rec
}

// ownRecords returns the records that were not restored.
func (h *history) ownRecords() []record.Record {
	own := make([]record.Record, 0, h.n)
	for i := range h.packs {
		p := &h.chunks[i/chunkSize][i%chunkSize]
		for j := range p.records() {
			rec := h.unpack(p, j)
			rec.Seq = uint64(h.numRestored()+len(own)) + 1
			own = append(own, rec)
		}
	}
	return own
}
