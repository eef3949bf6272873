package diff

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// A Difference describes the changes from one snapshot to another. Events holds the calls in the
// order of the second snapshot, followed by the calls that exist only in the first snapshot. The
// other lists are sorted by key.
type Difference struct {
	Events    []EventChange
	Values    []ValueChange
	Artifacts []ArtifactChange // artifacts that the run refers to
	Status    []TextChange     // the run's status: at most one change
	Metadata  []TextChange     // the run's metadata, by JSON name
	Retry     []TextChange     // the levels of the retry configuration, such as "retry.tool_call"
}

// A Change specifies how something changed.
type Change uint8

// The kinds of changes.
const (
	Added   Change = iota + 1 // only in the second snapshot
	Removed                   // only in the first snapshot
	Changed                   // in both snapshots, with differences
)

// String returns "+", "-" or "~".
func (c Change) String() string {
	if c < Added || c > Changed {
		return fmt.Sprintf("change(%d)", uint8(c))
	}
	return string(" +-~"[c])
}

// An EventChange is the change of one call.
type EventChange struct {
	Change  Change
	Address record.Address
	Kind    record.Kind
	Before  *record.Record // the call's last record in the first snapshot; nil if Added
	After   *record.Record // the call's last record in the second snapshot; nil if Removed
}

// A ValueChange is the change of one value.
type ValueChange struct {
	Change Change
	Key    string
	Before []byte // encoded value; nil if Added, or if the value is an artifact
	After  []byte // encoded value; nil if Removed, or if the value is an artifact
}

// An ArtifactChange is an added or removed artifact. It is never Changed.
type ArtifactChange struct {
	Change    Change
	Reference string
}

// A TextChange is a change of the status, of one metadata field, or of one level of the retry
// configuration.
type TextChange struct {
	Change Change
	Name   string // such as "status", "pipeline" or "custom.team"
	Before string
	After  string
}

// Compare returns what changed from a to b: the calls that were added or removed, or
// that differ in status, outcome, number of attempts, output, error or input; the
// values and artifacts; and the run's status, metadata and retry levels. It ignores
// times, durations and sequence numbers. The result shares records with a and b.
func Compare(a, b *snapshot.Snapshot) Difference {
	return Difference{
		Events:    diffEvents(a, b),
		Values:    diffValues(a.Values(), b.Values()),
		Artifacts: diffArtifacts(a.Artifacts(), b.Artifacts()),
		Status:    diffTexts(map[string]string{"status": string(a.Status)}, map[string]string{"status": string(b.Status)}),
		Metadata:  diffTexts(textsOfMetadata(&a.Metadata), textsOfMetadata(&b.Metadata)),
		Retry:     diffTexts(textsOfRetry(a.Retry), textsOfRetry(b.Retry)),
	}
}

// eventsOf returns the last record of each call in a snapshot, and the addresses of
// the calls in the order in which they began.
func eventsOf(s *snapshot.Snapshot) (last map[record.Address]*record.Record, order []record.Address) {
	last = make(map[record.Address]*record.Record)
	for i := range s.Records {
		r := &s.Records[i]
		if !r.Kind.IsCall() {
			continue
		}
		if last[r.Address] == nil {
			order = append(order, r.Address)
		}
		last[r.Address] = r
	}
	return last, order
}

func diffEvents(a, b *snapshot.Snapshot) []EventChange {
	before, gone := eventsOf(a)
	after, order := eventsOf(b)
	var changes []EventChange
	for _, at := range order {
		was, is := before[at], after[at]
		switch {
		case was == nil:
			changes = append(changes, EventChange{Added, at, is.Kind, nil, is})
		case !sameState(was, is):
			changes = append(changes, EventChange{Changed, at, is.Kind, was, is})
		}
	}
	for _, at := range gone {
		if after[at] == nil {
			changes = append(changes, EventChange{Removed, at, before[at].Kind, before[at], nil})
		}
	}
	return changes
}

// sameState reports whether a and b, the last records of a call, describe the same
// state of the call.
func sameState(a, b *record.Record) bool {
	return a.Kind == b.Kind && a.Name == b.Name && a.Status == b.Status && a.WillRetry == b.WillRetry &&
		a.Attempt == b.Attempt && a.Stage == b.Stage && a.Reason == b.Reason &&
		textOf(a.Err) == textOf(b.Err) && sameOutput(a, b) && inputOf(a) == inputOf(b)
}

func sameOutput(a, b *record.Record) bool {
	return a.Artifact() == b.Artifact() && bytes.Equal(a.Encoded(), b.Encoded())
}

// textOf returns the beginning of an error's text. This part does not change when the error is
// stored.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return record.Truncate(fmt.Sprint(err), 1000)
}

func inputOf(r *record.Record) record.Hash {
	if r.Detail == nil {
		return record.Hash{}
	}
	return r.Detail.InputHash
}

// changeOf returns how the entry for a key changed. At least one side must have the key.
func changeOf(hadBefore, hasAfter bool) Change {
	switch {
	case !hadBefore:
		return Added
	case !hasAfter:
		return Removed
	}
	return Changed
}

// bothKeys returns the sorted keys of both maps.
func bothKeys[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

func diffValues(a, b map[string]snapshot.Value) []ValueChange {
	var changes []ValueChange
	for _, key := range bothKeys(a, b) {
		before, had := a[key]
		after, has := b[key]
		if !had || !has || before.Artifact != after.Artifact || !bytes.Equal(before.Encoded, after.Encoded) {
			changes = append(changes, ValueChange{changeOf(had, has), key, before.Encoded, after.Encoded})
		}
	}
	return changes
}

func diffArtifacts(a, b []string) []ArtifactChange {
	before, after := make(map[string]bool), make(map[string]bool)
	for _, reference := range a {
		before[reference] = true
	}
	for _, reference := range b {
		after[reference] = true
	}
	var changes []ArtifactChange
	for _, reference := range bothKeys(before, after) {
		if before[reference] != after[reference] {
			changes = append(changes, ArtifactChange{changeOf(before[reference], after[reference]), reference})
		}
	}
	return changes
}

// textsOfMetadata returns the metadata fields that are set, by name.
func textsOfMetadata(m *snapshot.Metadata) map[string]string {
	texts := make(map[string]string)
	if m.Description != "" {
		texts["description"] = m.Description
	}
	if m.Pipeline != "" {
		texts["pipeline"] = m.Pipeline
	}
	if len(m.Tags) > 0 {
		texts["tags"] = strings.Join(m.Tags, ", ")
	}
	for key, value := range m.Custom {
		texts["custom."+key] = value
	}
	return texts
}

// textsOfRetry returns the retry levels as strings, by key.
func textsOfRetry(levels snapshot.RetryLevels) map[string]string {
	texts := make(map[string]string)
	for key, level := range levels {
		texts["retry."+key] = level.String()
	}
	return texts
}

func diffTexts(a, b map[string]string) []TextChange {
	var changes []TextChange
	for _, name := range bothKeys(a, b) {
		before, had := a[name]
		after, has := b[name]
		if had != has || before != after {
			changes = append(changes, TextChange{changeOf(had, has), name, before, after})
		}
	}
	return changes
}

// IsEmpty reports whether nothing changed.
func (d Difference) IsEmpty() bool {
	return len(d.Events)+len(d.Values)+len(d.Artifacts)+len(d.Status)+len(d.Metadata)+len(d.Retry) == 0
}

// String returns one line for each change. Each line begins with "+", "-" or "~". If nothing
// changed, String returns "no difference".
func (d Difference) String() string {
	if d.IsEmpty() {
		return "no difference"
	}
	var lines []string
	for _, c := range d.Status {
		lines = append(lines, c.String())
	}
	for _, c := range slices.Concat(d.Metadata, d.Retry) {
		lines = append(lines, c.String())
	}
	for _, c := range d.Events {
		lines = append(lines, c.String())
	}
	for _, c := range d.Values {
		lines = append(lines, c.String())
	}
	for _, c := range d.Artifacts {
		lines = append(lines, fmt.Sprintf("%v artifact %s", c.Change, c.Reference))
	}
	return strings.Join(lines, "\n")
}

// String returns a line such as `~ status "running" → "completed"`.
func (c TextChange) String() string {
	return line(c.Change, c.Name, quote(c.Before), quote(c.After))
}

func quote(s string) string { return fmt.Sprintf("%q", record.Truncate(s, lineLimit)) }

// String returns a line such as `~ tool_call assistant/fetch failed (exhausted,
// attempt 3): refused → completed`.
func (c EventChange) String() string {
	before, after := stateOf(c.Before), stateOf(c.After)
	if c.Change == Changed && before == after {
		after += " (" + strings.Join(c.details(), ", ") + ")"
	}
	return line(c.Change, fmt.Sprintf("%v %v", c.Kind, c.Address), before, after)
}

// details lists the changes that the rest of the line does not show.
func (c EventChange) details() []string {
	var details []string
	for _, part := range []struct{ name, before, after string }{
		{"kind", c.Before.Kind.String(), c.After.Kind.String()},
		{"name", quote(c.Before.Name), quote(c.After.Name)},
		{"stage", stageOf(c.Before), stageOf(c.After)},
	} {
		if part.before != part.after {
			details = append(details, fmt.Sprintf("%s %s → %s", part.name, part.before, part.after))
		}
	}
	for _, part := range []struct {
		name string
		same bool
	}{
		{"error", textOf(c.Before.Err) == textOf(c.After.Err)},
		{"output", sameOutput(c.Before, c.After)},
		{"input", inputOf(c.Before) == inputOf(c.After)},
	} {
		if !part.same {
			details = append(details, "different "+part.name)
		}
	}
	return details
}

func stageOf(r *record.Record) string { return cmp.Or(r.Stage.String(), "none") }

// stateOf briefly describes the state of the call whose last record is r.
func stateOf(r *record.Record) string {
	if r == nil {
		return ""
	}
	text := r.Status.String()
	if r.WillRetry {
		text += ", to be retried"
	}
	var notes []string
	if r.Reason != record.ReasonNone {
		notes = append(notes, r.Reason.String())
	}
	if r.Attempt > 0 {
		notes = append(notes, fmt.Sprintf("attempt %d", r.Attempt+1))
	}
	if len(notes) > 0 {
		text += " (" + strings.Join(notes, ", ") + ")"
	}
	if r.Err != nil {
		text += ": " + record.Truncate(textOf(r.Err), lineLimit)
	}
	return text
}

// String returns a line such as `~ value "city" "Oslo" → "Bergen"`.
func (c ValueChange) String() string {
	before, after := preview(c.Before), preview(c.After)
	if c.Change == Changed && before == after {
		after += " (different value)" // the values differ in a part that is not shown
	}
	return line(c.Change, fmt.Sprintf("value %q", c.Key), before, after)
}

// preview returns a value as it is shown in a line.
func preview(encoded []byte) string {
	if encoded == nil {
		return "(artifact)"
	}
	return record.Truncate(record.Preview(encoded), lineLimit)
}

// lineLimit is the maximum number of characters of a string shown in a line.
const lineLimit = 80

func line(c Change, what, before, after string) string {
	var text string
	switch c {
	case Added:
		text = fmt.Sprintf("%v %s %s", c, what, after)
	case Removed:
		text = fmt.Sprintf("%v %s %s", c, what, before)
	default:
		text = fmt.Sprintf("%v %s %s → %s", c, what, before, after)
	}
	return strings.Map(func(r rune) rune { // a change takes one line, even if an error has several
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		return r
	}, text)
}
