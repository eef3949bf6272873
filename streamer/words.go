package streamer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer/vocabulary"
)

// Vocabularies contains the vocabularies that a client can request, by name.
type Vocabularies map[string]vocabulary.Vocabulary

// check refuses names that no client could request.
func (v Vocabularies) check() error {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7F }) {
			return fmt.Errorf("streamer: Options.Vocabularies contains the name %q: want a name without spaces or control characters", name)
		}
		if v[name] == nil {
			return fmt.Errorf("streamer: Options.Vocabularies contains nil for %q", name)
		}
	}
	return nil
}

// parse returns the name of the vocabulary that a client requests, or "" if it requests none.
func (v Vocabularies) parse(values []string) (name string, err error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(v) == 0 {
		return "", fmt.Errorf("vocabulary is %q: this server has no vocabularies; see Options.Vocabularies", values)
	}
	if _, known := v[values[0]]; !known || len(values) > 1 {
		return "", fmt.Errorf("vocabulary is %q: want one of %q", values, slices.Sorted(maps.Keys(v)))
	}
	return values[0], nil
}

// encode returns the events that each vocabulary makes from the record, in the encoding in which
// they are sent but without IDs.
func (v Vocabularies) encode(r *record.Record) map[string][][]byte {
	if len(v) == 0 {
		return nil
	}
	events := make(map[string][][]byte, len(v))
	for name, words := range v {
		for _, e := range eventsIn(words, r) {
			events[name] = append(events[name], encodeEvent(e))
		}
	}
	return events
}

// eventUnsaid is the name of the event that is sent instead if a vocabulary panics on a record.
const eventUnsaid = "unsaid"

// eventsIn returns the events that a vocabulary makes from a record. It recovers from a panic,
// which must not end the stream or the run.
func eventsIn(words vocabulary.Vocabulary, r *record.Record) (events []vocabulary.Event) {
	defer func() {
		if recover() != nil {
			events = []vocabulary.Event{{Name: eventUnsaid, Fields: map[string]any{"message": "the vocabulary panicked"}}}
		}
	}()
	return words(*r)
}

// encodeEvent encodes an event from a vocabulary. Because users write their own vocabularies, the
// event may be invalid. Its name is reduced to one line.
func encodeEvent(e vocabulary.Event) []byte {
	e.Name = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(e.Name, "?"), func(r rune) bool { return r < ' ' || r == 0x7F }), " ")
	data, err := e.MarshalJSON()
	switch {
	case err != nil:
		data, _ = vocabulary.Event{Name: e.Name, Fields: map[string]any{"truncated": "the event is not JSON: " + err.Error()}}.MarshalJSON()
	case len(data) > maxData:
		data, _ = vocabulary.Event{Name: e.Name, Fields: map[string]any{"truncated": "the event is too long"}}.MarshalJSON()
	}
	return fmt.Appendf(nil, "data: %s\nevent: %s\n", data, e.Name)
}

// A vocabulary may make several events from one record. The last of them has the record's ID. The
// ID of each earlier event is the record's ID, a hyphen, and the event's number, so that a client
// that is disconnected between two of the events can continue with the second.

// cutPart splits an event's ID into the record's ID and the number of the event among the record's
// events. For the ID of the last event, the number is 0.
func cutPart(id string) (whole string, part int) {
	i := strings.LastIndexByte(id, '-')
	if i < 0 || strings.Count(id, "-") != 2 {
		return id, 0
	}
	n, err := strconv.Atoi(id[i+1:])
	if err != nil || n < 1 {
		return id, 0
	}
	return id[:i], n
}

// sendTranslated sends the events that the client's vocabulary makes from a record. It begins after
// the event with the number part, because the client has already received that one.
func (s *stream) sendTranslated(f *frame, id cursor, part int) error {
	events := f.eventsFor(s.vocabulary)
	for n := part + 1; n <= len(events); n++ {
		if err := s.write(events[n-1]); err != nil {
			return err
		}
		var err error
		switch {
		case id.n == 0:
			err = s.write([]byte("\n"))
		case n == len(events):
			err = s.endWithID()
		default:
			err = s.write(fmt.Appendf(nil, "id: %s%v-%d\n\n", appendCreated(nil, s.created), s.at, n))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendTranslatedRest sends the remaining events of the record at the cursor if the client has
// received only some of them. If the record is neither in memory nor in the source, these events
// are lost.
func (s *stream) sendTranslatedRest(ctx context.Context, t *tape, part int) error {
	if part == 0 || s.vocabulary == "" {
		return nil
	}
	f := t.find(s.at)
	if f == nil && s.run != nil && s.handler.source != nil {
		for rec, err := range s.handler.source.Records(ctx, s.run.id, s.at.n-1) {
			if err == nil && cursorOf(&rec) == s.at {
				f = s.handler.newFrame(&rec)
			}
			break // if there was an error, reading later records returns it again
		}
	}
	if f == nil {
		s.gap(1)
		return nil
	}
	return s.sendTranslated(f, s.at, part)
}
