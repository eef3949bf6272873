package snapshot

import (
	"maps"
	"slices"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// totals collects a run's values and artifacts from its records. The zero totals is for a run
// without records.
type totals struct {
	values    []value // all of them in order, even if their calls did not complete
	completed map[record.Address]bool
	artifacts map[string]bool
}

type value struct {
	address record.Address
	key     string
	Value
}

// A Value is an output or a stored value. It holds either the encoded bytes or the
// reference to the artifact that contains them. The zero Value means that there is no
// value.
type Value struct {
	Encoded  []byte
	Artifact string
}

// Values returns the run's values by key. For each key, it returns the value that was
// stored last.
func (s *Snapshot) Values() map[string]Value { return s.totals().latest() }

// Artifacts returns the references to artifacts in the records, sorted and without
// duplicates.
func (s *Snapshot) Artifacts() []string { return s.totals().references() }

func (s *Snapshot) totals() *totals {
	var sum totals
	for i := range s.Records {
		sum.add(&s.Records[i])
	}
	return &sum
}

func (s *totals) add(r *record.Record) {
	if s.completed == nil {
		s.completed, s.artifacts = make(map[record.Address]bool), make(map[string]bool)
	}
	for reference := range r.Artifacts() {
		s.artifacts[reference] = true
	}
	switch {
	case r.Kind == record.KindValue:
		s.values = append(s.values, value{r.Address, r.Name, Value{r.Encoded(), r.Artifact()}})
	case r.Kind.IsCall() && r.Status == record.StatusCompleted:
		s.completed[r.Address] = true
	}
}

// latest returns the last value for each key. A value that a call stores is recorded
// just before the call completes. The value counts only if the call did complete.
func (s *totals) latest() map[string]Value {
	values := make(map[string]Value)
	for _, v := range s.values {
		if v.address.IsZero() || s.completed[v.address] {
			values[v.key] = v.Value
		}
	}
	return values
}

// references returns the references to artifacts in the records, sorted.
func (s *totals) references() []string { return slices.Sorted(maps.Keys(s.artifacts)) }

// write writes the values and the artifacts as two pairs.
func (s *totals) write(w *codec.Writer) {
	writeValues(w.Key("values"), s.latest())
	w.Text("artifacts")
	references := s.references()
	w.Array(len(references))
	for _, reference := range references {
		w.Text(reference)
	}
}

func writeValues(w *codec.Writer, values map[string]Value) {
	w.Map(len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		w.Text(key)
		if v := values[key]; v.Artifact != "" {
			w.Text(v.Artifact)
		} else {
			w.Bytes(v.Encoded)
		}
	}
}
