package state

import "github.com/reprise-go/reprise/core"

// history keeps the records of a run in sequence order. It grows by chunks,
// so that the millionth record costs what the first did, and none is copied
// again.
type history struct {
	chunks [][]core.Record
	n      int
}

const chunkSize = 128

// append keeps rec under the next Seq, from 1.
func (h *history) append(rec core.Record) {
	if h.n%chunkSize == 0 {
		h.chunks = append(h.chunks, make([]core.Record, 0, chunkSize))
	}
	h.n++
	rec.Seq = uint64(h.n)
	last := &h.chunks[len(h.chunks)-1]
	*last = append(*last, rec)
}

func (h *history) len() int { return h.n }

// at returns the record with Seq i+1.
func (h *history) at(i int) core.Record { return h.chunks[i/chunkSize][i%chunkSize] }

func (h *history) records() []core.Record {
	all := make([]core.Record, 0, h.n)
	for _, chunk := range h.chunks {
		all = append(all, chunk...)
	}
	return all
}
