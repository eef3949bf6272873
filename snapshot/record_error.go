package snapshot

import (
	"fmt"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// The first field in an error's array specifies the error's form.
const (
	formRecorded    = 0 // a record.Error
	formInterrupted = 1 // a record.InterruptedError
)

const (
	recordedFields    = 8
	interruptedFields = 9
	typedFields       = 2
)

func writeError(w *codec.Writer, err error) {
	//nolint:errorlint // only an interrupt itself: a failure that wraps one is not an interrupt
	if e, ok := err.(*record.InterruptedError); ok && e != nil {
		writeInterrupted(w, e)
		return
	}
	writeRecorded(w, record.ErrorOf(err))
}

func writeRecorded(w *codec.Writer, e *record.Error) {
	if e == nil {
		w.Nil()
		return
	}
	w.Array(recordedFields)
	w.Uint(formRecorded)
	w.Text(e.Message)
	w.Text(e.Type)
	w.Uint(uint64(e.Class))
	w.Int(int64(e.Status))
	w.Int(int64(e.After))
	w.Array(len(e.Sentinels))
	for _, name := range e.Sentinels {
		w.Text(name)
	}
	w.Array(len(e.Typed))
	for _, typed := range e.Typed {
		w.Array(typedFields)
		w.Text(typed.Name)
		w.Bytes(typed.Value)
	}
}

func writeInterrupted(w *codec.Writer, e *record.InterruptedError) {
	w.Array(interruptedFields)
	w.Uint(formInterrupted)
	w.Text(string(e.Reason))
	w.Text(e.Message)
	w.Text(e.By)
	w.Text(e.Question)
	w.Bool(e.Origin != nil)
	writeRecorded(w, record.ErrorOf(e.Cause))
	if e.Origin == nil {
		w.Text("")
	} else {
		w.Text(e.Origin.Path())
	}
	w.Uint(uint64(e.Awaits))
}

// readError reads an error of either form. It returns nil for msgpack's nil.
func readError(in *codec.Reader) error {
	if in.Nil() {
		return nil
	}
	f := newFieldReader(in)
	switch form := f.uint(); form {
	case formRecorded:
		return readRecorded(&f)
	case formInterrupted:
		return readInterrupted(&f)
	default:
		f.fail(fmt.Errorf("an error has the unknown form %d", form))
		return nil
	}
}

func readRecorded(f *fieldReader) *record.Error {
	e := &record.Error{
		Message: f.text(), Type: f.name(), Class: record.Class(f.byte()),
		Status: f.number(), After: f.duration(),
	}
	f.list(func() { e.Sentinels = append(e.Sentinels, f.in.Name()) })
	f.list(func() {
		t := newFieldReader(f.in)
		e.Typed = append(e.Typed, record.TypedError{Name: t.name(), Value: t.bytes()})
		t.end()
	})
	f.end()
	return e
}

// restoredOrigin is the path of the origin of a restored interrupt.
type restoredOrigin string

func (o restoredOrigin) Path() string { return string(o) }

func readInterrupted(f *fieldReader) *record.InterruptedError {
	e := &record.InterruptedError{
		Reason: record.InterruptReason(f.name()), Message: f.text(), By: f.name(), Question: f.text(),
	}
	local := f.bool()
	if f.next() {
		e.Cause = readCause(f.in)
	}
	if origin := f.text(); local {
		e.Origin = restoredOrigin(origin)
	}
	e.Awaits = record.AwaitKind(f.byte())
	f.end()
	return e
}

// readCause reads an interrupt's cause. The cause must be a recorded error and not another
// interrupt, since interrupts could otherwise be nested to any depth.
func readCause(in *codec.Reader) error {
	if in.Nil() {
		return nil
	}
	f := newFieldReader(in)
	if form := f.uint(); form != formRecorded {
		f.fail(fmt.Errorf("a cause has the unknown form %d", form))
		return nil
	}
	return readRecorded(&f)
}
