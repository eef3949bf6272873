package filestore

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"sort"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/internal/blocks"
)

// A document reads parts of a file written by [snapshot.Run.WriteTo], one block at a time. It is
// not safe for concurrent use. If the file is damaged, the error is errUnclear, and
// [snapshot.Decode] reports what is wrong.
type document struct {
	info   snapshot.Info
	blocks *blocks.Reader
}

// openDocument reads the beginning of a document of the given size, and its table of checksums.
func openDocument(in io.ReaderAt, size int64) (*document, error) {
	r, err := blocks.NewReader(in, size)
	if err != nil {
		return nil, unclear(err)
	}
	head, err := r.Block(0)
	if err != nil {
		return nil, unclear(err)
	}
	d := &document{blocks: r}
	if d.info, err = infoOf(head); err != nil || r.Len() < 2 {
		return nil, errUnclear
	}
	return d, nil
}

// unclear returns errUnclear if err means that a file is damaged. It returns any other error
// unchanged.
func unclear(err error) error {
	if errors.Is(err, blocks.ErrNoTable) || errors.Is(err, blocks.ErrChecksum) {
		return errUnclear
	}
	return err
}

// infoOf reads the block before the first record. The block contains the pairs of the info and ends
// with the head of the array of records.
func infoOf(head []byte) (snapshot.Info, error) {
	if !snapshot.IsDocument(head) {
		return snapshot.Info{}, errUnclear
	}
	in := codec.NewReader(head)
	defer in.Release()
	in.Map()
	begin := in.Offset()
	for n := 0; in.Err() == nil; n++ {
		end := in.Offset()
		switch in.Name() {
		case "version":
			if in.Uint() != snapshot.FormatVersion {
				return snapshot.Info{}, errUnclear
			}
		case "records":
			records := head[in.Offset():]
			w := codec.NewWriter(nil)
			w.Map(n)
			w.Raw(head[begin:end])
			info, err := snapshot.DecodeInfo(w.Finish())
			if err != nil || !isArrayHead(records, info.LastSeq) {
				return snapshot.Info{}, errUnclear
			}
			return info, nil
		default:
			in.Skip()
		}
	}
	return snapshot.Info{}, errUnclear
}

// isArrayHead reports whether data is the head of an array with n elements.
func isArrayHead(data []byte, n uint64) bool {
	w := codec.NewWriter(nil)
	w.Array(int(n))
	return bytes.Equal(data, w.Finish())
}

// recordsAfter yields the records with numbers greater than seq. It reads the blocks that contain
// these records, and a few others to locate them.
func (d *document) recordsAfter(seq uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if seq >= d.info.LastSeq {
			return
		}
		i, err := d.find(seq + 1)
		next := uint64(0) // number of the next record; 0 while unknown, before the first
		for ; err == nil && i < d.blocks.Len()-1; i++ {
			var data []byte
			if data, err = d.blocks.Block(i); err != nil {
				break
			}
			for len(data) > 0 && err == nil {
				var rec record.Record
				if rec, data, err = d.cut(data, next, seq); err != nil {
					break
				}
				if next = rec.Seq + 1; rec.Seq > seq && !yield(rec, nil) {
					return
				}
			}
		}
		if err == nil && next != d.info.LastSeq+1 {
			err = errUnclear
		}
		if err != nil {
			yield(record.Record{}, unclear(err))
		}
	}
}

// cut removes the first record from data and returns it. The record must have the number next,
// unless next is 0. Only records with numbers greater than after are decoded; for the others, cut
// returns only the number.
func (d *document) cut(data []byte, next, after uint64) (rec record.Record, rest []byte, err error) {
	encoded, seq, rest, err := snapshot.CutRecord(data)
	if err != nil || next != 0 && seq != next {
		return record.Record{}, nil, errUnclear
	}
	if seq <= after {
		return record.Record{Seq: seq}, rest, nil
	}
	if rec, err = snapshot.DecodeRecord(encoded); err != nil {
		return record.Record{}, nil, errUnclear
	}
	rec.RunID = d.info.RunID
	return rec, rest, nil
}

// find returns the index of the block that contains record seq: the last block whose first record
// is at or before seq. The first and last blocks contain no records.
func (d *document) find(seq uint64) (int, error) {
	var failed error
	after := sort.Search(d.blocks.Len()-2, func(i int) bool {
		data, err := d.blocks.Block(i + 1)
		if err == nil {
			var first uint64
			if _, first, _, err = snapshot.CutRecord(data); err == nil {
				return first > seq
			}
			err = errUnclear
		}
		failed = err
		return true
	})
	if failed == nil && after == 0 { // the first block of records must begin with record 1
		failed = errUnclear
	}
	return after, failed
}
