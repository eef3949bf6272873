package filestore

import (
	"errors"
)

// A frameWriter writes a file of frames, mostly under a temporary name.
type frameWriter struct {
	disk      disk
	name      string
	file      diskFile
	size      int64 // size of the frames that were written
	allocated int64 // size of the file after fill: zeros follow the frames
	buf       []byte
	openAt    int  // where the open frame of records begins in buf; -1 if there is none
	named     bool // the file has its final name; a crash before the sync may leave only a part of it
	err       error
}

// frameSize is the size at which a frame of several records is full.
const frameSize = 128 << 10

// createFrames creates a file that begins with a header. If named is false, the file has a
// temporary name until rename is called.
func createFrames(d disk, name string, named bool, h *header) (*frameWriter, error) {
	w := &frameWriter{disk: d, name: name, named: named, openAt: -1}
	var err error
	if w.file, err = d.Create(w.path()); err != nil {
		return nil, err
	}
	w.buf, w.err = appendHeader(w.buf, h)
	return w, nil
}

// path is the name that the file has now.
func (w *frameWriter) path() string {
	if w.named {
		return w.name
	}
	return w.name + tmpSuffix
}

// record adds an encoded record. Several records go into one frame: the file is valid only as a
// whole anyway.
func (w *frameWriter) record(encoded []byte) {
	if w.openAt < 0 {
		w.openAt = len(w.buf)
		w.buf = beginFrame(w.buf, frameRecords)
	}
	w.buf = append(w.buf, encoded...)
	if len(w.buf)-w.openAt >= frameSize {
		w.endFrame()
		w.write()
	}
}

// endFrame ends the open frame.
func (w *frameWriter) endFrame() {
	if w.openAt >= 0 && w.err == nil {
		at := w.size + int64(w.openAt)
		synced := at
		if w.named {
			synced = 0
		}
		w.buf, w.err = endFrame(w.buf, w.openAt, at, synced)
		w.openAt = -1
	}
}

// write writes the frames that were added.
func (w *frameWriter) write() {
	if w.err == nil && len(w.buf) > 0 {
		w.err = writeAt(w.file, w.buf, w.size)
		w.size += int64(len(w.buf))
		w.buf = w.buf[:0]
	}
}

// fill writes the frames that were added, and fills the file with zeros to the end of its block.
// A later frame there is cheaper to sync, because it changes neither the size of the file nor its
// blocks.
func (w *frameWriter) fill() error {
	w.endFrame()
	used := w.size + int64(len(w.buf))
	w.allocated = wholeBlocks(used)
	w.buf = append(w.buf, make([]byte, w.allocated-used)...)
	w.write()
	w.size = used
	return w.err
}

// sync makes the file durable, but not its name.
func (w *frameWriter) sync() error { return w.file.Sync() }

// wholeBlocks rounds a size up to whole blocks.
func wholeBlocks(size int64) int64 {
	const block = 4 << 10
	return (size + block - 1) / block * block
}

// publish makes the file durable under its name, and returns w. If that fails, the file is removed.
func (w *frameWriter) publish(syncNames func() error) (*frameWriter, error) {
	for _, step := range []func() error{w.fill, w.sync, w.rename, syncNames} {
		if err := step(); err != nil {
			return nil, w.abandon(err)
		}
	}
	return w, nil
}

func (w *frameWriter) rename() error {
	err := w.disk.Rename(w.path(), w.name)
	w.named = err == nil
	return err
}

// abandon closes and removes the file because of err, and returns err.
func (w *frameWriter) abandon(err error) error {
	_ = w.file.Close()
	if removed := remove(w.disk, w.path()); removed != nil {
		err = errors.Join(err, removed)
	}
	return unavailable(err)
}
