package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// infoPairs is the number of key-value pairs that AppendInfo writes.
const infoPairs = 22

// AppendInfo appends i to dst as a msgpack map, for stores that store the info
// separately from the records. It does not encode Open. It returns an error if a
// time is outside the years 1678 to 2261.
func AppendInfo(dst []byte, i *Info) ([]byte, error) {
	if err := i.checkTimes(); err != nil {
		return dst, fmt.Errorf("snapshot: run %s: %w", i.RunID, err)
	}
	w := codec.NewWriter(dst)
	w.Map(infoPairs)
	i.write(w)
	return w.Finish(), nil
}

// DecodeInfo decodes data that [AppendInfo] has appended. It skips unknown keys.
// If data is anything else, the error is ErrCorrupt.
func DecodeInfo(data []byte) (Info, error) {
	in := codec.NewReader(data)
	defer in.Release()
	var i Info
	for key := range in.Pairs() {
		i.read(in, key)
	}
	switch {
	case in.Err() != nil:
		return Info{}, fmt.Errorf("%w: %w", ErrCorrupt, in.Err())
	case in.Len() > 0:
		return Info{}, fmt.Errorf("%w: byte %d: %d bytes after the info", ErrCorrupt, in.Offset(), in.Len())
	case i.RunID == "":
		return Info{}, fmt.Errorf("%w: %w", ErrCorrupt, errNoRunID)
	}
	return i, nil
}

var errNoRunID = errors.New("the info has no run ID")

func (i *Info) write(w *codec.Writer) {
	w.Key("run_id").Text(i.RunID)
	w.Key("parent_run_id").Text(i.ParentID)
	w.Key("status").Text(string(i.Status))
	writeStop(w.Key("stop"), i.Stop)
	writeMetadata(w.Key("metadata"), &i.Metadata)
	writeTime(w.Key("created_at"), i.Created)
	writeTime(w.Key("updated_at"), i.Updated)
	writeTime(w.Key("due_at"), i.Due)
	writeTime(w.Key("expires_at"), i.Expires)
	w.Key("generation").Uint(i.Generation)
	w.Key("last_seq").Uint(i.LastSeq)
	writeUsage(w.Key("usage"), i.Usage)
	w.Key("owner").Text(i.Owner)
	w.Key("program").Text(i.Program)
	w.Key("program_version").Text(i.Version)
	w.Key("priority").Int(int64(i.Priority))
	w.Key("restarts").Int(int64(i.Restarts))
	w.Key("pinned").Bool(i.Pinned)
	w.Key("retry_to").Uint(i.RetryTo)
	w.Key("refused_by").Text(i.RefusedBy)
	i.Retry.write(w.Key("retry"))
	i.Summary.write(w.Key("summary"))
}

// read reads the value for a key. It skips the values of keys added by later versions.
func (i *Info) read(in *codec.Reader, key string) {
	switch key {
	case "run_id":
		i.RunID = in.Text()
	case "parent_run_id":
		i.ParentID = in.Text()
	case "status":
		i.Status = Status(in.Name())
	case "stop":
		i.Stop = readStop(in)
	case "metadata":
		i.Metadata = readRunMetadata(in)
	case "created_at":
		i.Created = readTime(in)
	case "updated_at":
		i.Updated = readTime(in)
	case "due_at":
		i.Due = readTime(in)
	case "expires_at":
		i.Expires = readTime(in)
	case "generation":
		i.Generation = in.Uint()
	case "last_seq":
		i.LastSeq = in.Uint()
	case "usage":
		i.Usage = i.Usage.Plus(readUsage(in)) // Plus also removes a cost that is not a number
	case "owner":
		i.Owner = in.Text()
	case "program":
		i.Program = in.Text()
	case "program_version":
		i.Version = in.Text()
	case "priority":
		i.Priority = int(in.Int())
	case "retry_to":
		i.RetryTo = in.Uint()
	case "refused_by":
		i.RefusedBy = in.Text()
	case "restarts":
		i.Restarts = int(in.Int())
	case "pinned":
		i.Pinned = in.Bool()
	case "retry":
		i.Retry = readRetryLevels(in)
	case "summary":
		i.Summary = readSummary(in)
	default:
		in.Skip()
	}
}

// writeStop writes the zero Stop as nil.
func writeStop(w *codec.Writer, s Stop) {
	if s == (Stop{}) {
		w.Nil()
		return
	}
	w.Map(3)
	w.Key("reason").Text(string(s.Reason))
	w.Key("by").Text(s.By)
	w.Key("message").Text(s.Message)
}

func readStop(in *codec.Reader) (s Stop) {
	if in.Nil() {
		return s
	}
	for key := range in.Pairs() {
		switch key {
		case "reason":
			s.Reason = record.InterruptReason(in.Name())
		case "by":
			s.By = in.Text()
		case "message":
			s.Message = in.Text()
		default:
			in.Skip()
		}
	}
	return s
}

func writeMetadata(w *codec.Writer, m *Metadata) {
	w.Map(4)
	w.Key("description").Text(m.Description)
	w.Key("pipeline").Text(m.Pipeline)
	w.Key("tags").Array(len(m.Tags))
	for _, tag := range m.Tags {
		w.Text(tag)
	}
	w.Key("custom").Map(len(m.Custom))
	for _, key := range slices.Sorted(maps.Keys(m.Custom)) {
		w.Text(key)
		w.Text(m.Custom[key])
	}
}

func readRunMetadata(in *codec.Reader) (m Metadata) {
	for key := range in.Pairs() {
		switch key {
		case "description":
			m.Description = in.Text()
		case "pipeline":
			m.Pipeline = in.Text()
		case "tags":
			m.Tags = nil
			for n := in.Array(); n > 0 && in.Err() == nil; n-- {
				m.Tags = append(m.Tags, in.Text())
			}
		case "custom":
			m.Custom = readCustom(in)
		default:
			in.Skip()
		}
	}
	return m
}

func readCustom(in *codec.Reader) map[string]string {
	n := in.Map()
	if n == 0 {
		return nil
	}
	m := make(map[string]string)
	for ; n > 0 && in.Err() == nil; n-- {
		key := in.Text()
		m[key] = in.Text()
	}
	return m
}
