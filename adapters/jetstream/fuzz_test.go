package jetstream

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// FuzzMessage decodes data that somebody else may have stored on the subject of a run. The result
// must be an error, or a message that encodes to the same data.
func FuzzMessage(f *testing.F) {
	f.Add("open", "1", "0", "", "3", []byte("abc"))
	f.Add("records", "2", "7", "5", "", []byte("abc"))
	f.Add("records", "0", "0", "0", "", []byte("0"))
	f.Add("set", "18446744073709551615", "1", "", "1", []byte("a"))
	f.Add("deleted", "x", "-1", "", "99999999999999999999", []byte{})
	f.Fuzz(func(t *testing.T, k, generation, last, opening, info string, data []byte) {
		h := nats.Header{}
		h.Set(headerKind, k)
		h.Set(headerGeneration, generation)
		h.Set(headerLast, last)
		h.Set(headerOpening, opening)
		h.Set(headerInfo, info)
		m, err := decode(&storedMessage{Subject: "rp.s.r.run", Seq: 1, Header: h, Data: data})
		if err != nil {
			return
		}
		msg := m.encode("rp.s.r.run")
		again, err := decode(&storedMessage{Subject: msg.Subject, Seq: 1, Header: msg.Header, Data: msg.Data})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(msg.Data, data) || !reflect.DeepEqual(m, again) && (len(m.info) > 0 || len(m.records) > 0) {
			t.Errorf("%+v became %+v", m, again)
		}
	})
}

func TestRecordsWithoutAnOpeningAreRefused(t *testing.T) {
	h := nats.Header{}
	for name, value := range map[string]string{headerKind: "records", headerGeneration: "1", headerLast: "1", headerOpening: "0"} {
		h.Set(name, value)
	}
	_, err := decode(&storedMessage{Subject: "rp.s.r.run", Seq: 7, Header: h, Data: []byte("a")})
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	assert.ErrorContains(t, err, `message 7 on rp.s.r.run was not written by Reprise: the header Rp-Opening is "0"; want the sequence of a message`)
}

// FuzzJob decodes data that somebody else may have put into the queue.
func FuzzJob(f *testing.F) {
	f.Add([]byte(`{"run_id":"r","program":"p","version":"1","priority":3,"due":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"run_id":""}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decodeJob(data)
		if err != nil {
			return
		}
		encoded, err := encodeJob(&e)
		if err != nil {
			return // the data contains a time that JSON cannot represent
		}
		again, err := decodeJob(encoded)
		if err != nil || again.RunID != e.RunID || again.Program != e.Program || !again.Due.Equal(e.Due) {
			t.Errorf("%+v became %+v, %v", e, again, err)
		}
	})
}

// FuzzSubject checks that the run ID can be read from the subject of a run, and that the
// subject of a job is valid whatever its program is named.
func FuzzSubject(f *testing.F) {
	f.Add("run-1.a_b", "agent v1")
	f.Add("-", "größe.*>")
	f.Fuzz(func(t *testing.T, runID, program string) {
		n := names{"s"}
		if class, id := parse(n.run(runID)); class == "r" && id != runID && isRunID(runID) {
			t.Errorf("run %q became %q", runID, id)
		}
		q := &Queue{store: &Store{names: n}}
		e := runner.QueueEntry{RunID: "r", Program: runner.ProgramID{Name: program, Version: "1"}}
		if subject := q.subject(&e); program != "" && !isSubject(subject) {
			t.Errorf("the job of program %q has the subject %q", program, subject)
		}
	})
}

func isRunID(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return id != ""
}

func isSubject(subject string) bool {
	dots := 0
	for _, c := range []byte(subject) {
		if c <= ' ' || c == '*' || c == '>' || c >= 0x7f {
			return false
		}
		if c == '.' {
			dots++
		}
	}
	return dots == 6
}
