// Package payload finds the whole input and output of a call in the records of its run.
package payload

import (
	"iter"

	"github.com/reprise-go/reprise/record"
)

// A Payload is the whole input and output of a call.
type Payload struct {
	Input    []byte // encoded; nil if it was not recorded
	Output   []byte // encoded; nil if there is none, or if it is an artifact
	Artifact string // reference to the output, if it is an artifact
	Err      error  // error of the latest failed attempt
}

// Of returns the latest input, output and error of a call, from the records of its run. It reports
// whether there is a record of the call.
func Of(records iter.Seq2[record.Record, error], a record.Address) (p Payload, found bool, err error) {
	for r, err := range records {
		if err != nil {
			return p, found, err
		}
		if r.Kind.IsCall() && r.Address == a {
			found = true
			p.take(&r)
		}
	}
	return p, found, nil
}

func (p *Payload) take(r *record.Record) {
	if r.Detail != nil && r.Detail.Input != nil {
		p.Input = r.Detail.Input
	}
	switch r.Status {
	case record.StatusCompleted:
		p.Output, p.Artifact = r.Encoded(), r.Artifact()
	case record.StatusFailed:
		p.Err = r.Err
	}
}
