package filestore

import (
	"errors"
)

// A frameWriter writes a file of frames, usually under a temporary name.
type frameWriter struct {
	disk      disk
	name      string
	file      diskFile
	size      int64 // total size of the frames written
	allocated int64 // size of the file after fill, including the zeros that follow the frames
	buf       []byte
	openAt    int  // where the unfinished frame of records begins in buf; -1 if there is none
	named     bool // the file has its final name; a crash before the sync may leave only part of it
	err       error
}

// frameSize is the size at which a frame of records is ended.
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

// path returns the current name of the file.
func (w *frameWriter) path() string {
	if w.named {
		return w.name
	}
	return w.name + tmpSuffix
}

// record adds an encoded record. It puts several records into one frame, which is possible because
// the file is valid only as a whole.
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

// endFrame ends the unfinished frame, if there is one.
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

// write writes the frames in buf.
func (w *frameWriter) write() {
	if w.err == nil && len(w.buf) > 0 {
		w.err = writeAt(w.file, w.buf, w.size)
		w.size += int64(len(w.buf))
		w.buf = w.buf[:0]
	}
}

// fill writes all frames that were added, and fills the rest of the last block with zeros. A frame
// written there later is cheap to sync, because it changes neither the size of the file nor its
// list of blocks.
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

// wholeBlocks rounds a size up to a whole number of blocks.
func wholeBlocks(size int64) int64 {
	const block = 4 << 10
	return (size + block - 1) / block * block
}

// publish makes the file durable under its final name, and returns w. If that fails, publish removes
// the file.
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

// abandon closes and removes the file because of err. It returns err, joined with any error from
// removing the file.
func (w *frameWriter) abandon(err error) error {
	_ = w.file.Close()
	if removed := remove(w.disk, w.path()); removed != nil {
		err = errors.Join(err, removed)
	}
	return unavailable(err)
}
