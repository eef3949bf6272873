package streamer

import (
	"fmt"
	"sync"

	"github.com/reprise-go/reprise/core"
)

// frame is one event as every client gets it, but for its ID.
type frame struct {
	runID  string
	seq    uint64 // zero for what is not numbered
	kind   core.Kind
	status core.Status
	event  string
	size   int64 // in memory, about

	once sync.Once
	rec  *core.Record // until encoded
	body []byte       // "data: …\nevent: …\n": the ID and the empty line are the stream's
}

// eagerBytes is how much a record may hold on to before its frame is encoded
// at once, to let go of it. Outputs are shown as previews of 500 characters.
const eagerBytes = 4 << 10

func newFrame(r *core.Record) *frame {
	f := &frame{runID: r.RunID, kind: r.Kind, status: r.Status, event: eventName(r), rec: r}
	if !r.Replayed {
		f.seq = r.Seq
	}
	f.size = frameBytes
	if d := r.Detail; d != nil {
		n := len(d.Output) + len(d.Input) + len(d.Message)
		if d.Metadata != nil || n > eagerBytes {
			n = len(f.bytes())
		}
		f.size += int64(n)
	}
	//nolint:errorlint // itself: what others say, and when, is theirs
	if e, ok := r.Err.(*core.RecordedError); ok && e != nil {
		f.size += int64(len(e.Message))
	}
	return f
}

// restarted is the frame of an entry that stands for the end of a run, and the
// beginning of another with the same ID.
var restarted = new(frame)

// frameBytes is what a frame takes without what users put into it.
const frameBytes = 1 << 10

// bytes encodes the frame when it is first sent: a run that nobody watches
// pays for no JSON.
func (f *frame) bytes() []byte {
	f.once.Do(func() {
		data := recordJSON(f.rec)
		f.body = make([]byte, 0, len("data: \nevent: \n")+len(f.event)+len(data))
		f.body = append(f.body, "data: "...)
		f.body = append(f.body, data...)
		f.body = append(f.body, "\nevent: "...)
		f.body = append(f.body, f.event...)
		f.body = append(f.body, '\n')
		f.rec = nil
	})
	return f.body
}

// json is the data of the event.
func (f *frame) json() []byte {
	body := f.bytes()
	return body[len("data: ") : len(body)-len("\nevent: \n")-len(f.event)]
}

// maxData is how long the JSON of one event may be.
const maxData = 256 << 10

// recordJSON is the record on one line. What a user put into its message,
// error or metadata is cut where it is out of all proportion.
func recordJSON(r *core.Record) []byte {
	data, err := r.MarshalJSON() // json.Marshal would read through all of it once more
	if err == nil && len(data) <= maxData {
		return data
	}
	cut := core.Record{
		RunID: r.RunID, Seq: r.Seq, Generation: r.Generation, Ordinal: r.Ordinal, Time: r.Time, Address: r.Address, Name: cutText(r.Name),
		Kind: r.Kind, Status: r.Status, Reason: r.Reason, Stage: r.Stage, Class: r.Class,
		DelaySource: r.DelaySource, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, WillRetry: r.WillRetry,
		Replayed: r.Replayed, Duration: r.Duration, Elapsed: r.Elapsed, Delay: r.Delay,
		Detail: &core.Detail{Metadata: map[string]any{"truncated": "the record is too long for an event"}},
	}
	if r.Err != nil {
		cut.Err = cutError(cutText(fmt.Sprint(r.Err))) // Sprint survives an Error that panics
	}
	if r.Detail != nil {
		cut.Detail.Usage = r.Detail.Usage
		cut.Detail.Message = cutText(r.Detail.Message)
	}
	data, err = cut.MarshalJSON()
	if err != nil {
		return []byte(`{}`) // strings and numbers alone always encode
	}
	return data
}

// cutError is the text of an error that is too long.
type cutError string

func (e cutError) Error() string { return string(e) }

// cutText is at most the first 4,096 bytes of s, on a rune boundary.
func cutText(s string) string {
	const limit = 4 << 10
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && s[end]&0xC0 == 0x80 {
		end--
	}
	return s[:end] + "…"
}

// eventName is the name of the record on the wire.
func eventName(r *core.Record) string {
	if r.Kind != core.KindRun {
		return r.Status.String()
	}
	if r.Status == core.StatusAwaiting {
		return "run_paused"
	}
	return "run_" + r.Status.String()
}
