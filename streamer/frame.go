package streamer

import (
	"sync"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer/internal/wire"
)

// A frame is one event in the form in which it is sent to every client, without the ID.
type frame struct {
	runID  string
	seq    uint64 // zero for events without a number
	kind   record.Kind
	status record.Status
	event  string
	size   int64 // approximate size in memory

	once         sync.Once
	rec          *record.Record // nil once the frame is encoded
	vocabularies Vocabularies   // nil once the frame is encoded
	body         []byte         // "data: …\nevent: …\n": the stream adds the ID and the empty line
	events       map[string][][]byte
}

// eagerBytes is the size above which a record's frame is encoded at once, so that the memory that
// the record refers to is released. In the frame, outputs are previews of 500 characters.
const eagerBytes = 4 << 10

func (h *Handler) newFrame(r *record.Record) *frame {
	f := &frame{runID: r.RunID, kind: r.Kind, status: r.Status, event: wire.Name(r), rec: r, vocabularies: h.options.Vocabularies}
	if !r.Replayed {
		f.seq = r.Seq
	}
	f.size = int64(1+len(f.vocabularies)) * frameBytes
	if d := r.Detail; d != nil {
		n := len(d.Output) + len(d.Input) + len(d.Message)
		if d.Metadata != nil || n > eagerBytes {
			n = len(f.bytes())
		}
		f.size += int64(n)
	}
	//nolint:errorlint // only this type: methods of other error types may be slow or panic
	if e, ok := r.Err.(*record.Error); ok && e != nil {
		f.size += int64(len(e.Message))
	}
	return f
}

// restartedFrame marks an entry that reports that another run with the same ID has begun.
var restartedFrame = new(frame)

// frameBytes is the approximate size of a frame, not counting users' data.
const frameBytes = 1 << 10

// bytes returns the encoded frame. The frame is encoded when it is first needed, because a run that
// nobody watches needs no JSON.
func (f *frame) bytes() []byte {
	f.once.Do(func() {
		data := wire.JSON(f.rec, maxData)
		f.body = make([]byte, 0, len("data: \nevent: \n")+len(f.event)+len(data))
		f.body = append(f.body, "data: "...)
		f.body = append(f.body, data...)
		f.body = append(f.body, "\nevent: "...)
		f.body = append(f.body, f.event...)
		f.body = append(f.body, '\n')
		f.events = f.vocabularies.encode(f.rec)
		f.rec, f.vocabularies = nil, nil
	})
	return f.body
}

// eventsFor returns the encoded events into which a vocabulary turns the record.
func (f *frame) eventsFor(vocabulary string) [][]byte {
	f.bytes()
	return f.events[vocabulary]
}

// json returns the event's data.
func (f *frame) json() []byte {
	body := f.bytes()
	return body[len("data: ") : len(body)-len("\nevent: \n")-len(f.event)]
}

// maxData is the maximum length of one event's JSON.
const maxData = 256 << 10
