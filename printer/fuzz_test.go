package printer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
)

// recordOfEachShape returns records of every shape, with external text in every field.
func recordOfEachShape(t testing.TB, name, problem, message string) []record.Record {
	t.Helper()
	payload, err := record.Encode(message)
	require.NoError(t, err)
	interrupt := &record.InterruptedError{Reason: record.InterruptReason(name), By: problem, Message: message, Cause: errors.New(problem)}
	detail := &record.Detail{
		Input: payload, Output: payload, Artifact: name, Message: message,
		Metadata: map[string]any{message: problem, "error": errors.New(name), "list": []string{name, message}},
	}
	place := record.Address{}
	if name != "" {
		place = address(t, "group:"+escaped(name)+"/1/step:"+escaped(name)+"#2")
	}
	var records []record.Record
	for kind := record.Kind(0); kind <= record.KindBranch+1; kind++ {
		if kind == record.KindQuestion {
			continue // whether a question has a second line depends on its ID
		}
		for status := record.Status(0); status <= record.StatusRecorded+1; status++ {
			r := record.Record{
				RunID: message, Name: name, Kind: kind, Status: status, Address: place,
				Reason: record.ReasonExhausted, Err: errors.New(problem), Detail: detail, Attempt: 1,
			}
			if status == record.StatusInterrupted {
				r.Err = interrupt
			}
			records = append(records, r)
		}
	}
	return records
}

// escaped returns a name as it appears in an address.
func escaped(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c < 0x20 || c == 0x7f || strings.IndexByte("/#@:?%", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func FuzzLine(f *testing.F) {
	f.Add("fetch_data", "Connection timeout", "hello")
	f.Add("", "", "")
	f.Add("a\nb", "\x1b[2J\r\n\u009b1m", "\xff\xfe\u2028\u202e")
	f.Add("%0A", "\u0301\u0301", strings.Repeat("\U000e0041", 300))
	plain := func(t testing.TB, name, problem, message string) []string {
		return printedEach(recordOfEachShape(t, name, problem, message))
	}
	full := func(t testing.TB, name, problem, message string) []string {
		return printedEach(recordOfEachShape(t, name, problem, message), printer.WithPreviews(), printer.WithASCII())
	}
	plainBenign, fullBenign := plain(f, "n", "e", "m"), full(f, "n", "e", "m")
	f.Fuzz(func(t *testing.T, name, problem, message string) {
		for i, got := range plain(t, name, problem, message) {
			checkLines(t, plainBenign[i], got)
		}
		if strings.TrimSpace(name) == "" {
			return // an artifact without a name has no line
		}
		for i, got := range full(t, name, problem, message) {
			checkLines(t, fullBenign[i], got)
		}
	})
}

func printedEach(records []record.Record, options ...printer.Option) []string {
	texts := make([]string, len(records))
	for i := range records {
		texts[i] = printed(records[i:i+1], options...)
	}
	return texts
}

// checkLines checks that got has as many lines as benign, and no control characters.
func checkLines(t *testing.T, benign, got string) {
	t.Helper()
	if strings.Count(benign, "\n") != strings.Count(got, "\n") || got != "" && !strings.HasSuffix(got, "\n") {
		t.Errorf("%q does not have as many lines as %q", got, benign)
	}
	if !utf8.ValidString(got) {
		t.Errorf("%q is not UTF-8", got)
	}
	for line := range strings.Lines(got) {
		if utf8.RuneCountInString(line) > 1500 {
			t.Errorf("%q is too long", line)
		}
		for _, c := range strings.TrimSuffix(line, "\n") {
			if !unicode.IsGraphic(c) && c != '\u200c' && c != '\u200d' {
				t.Errorf("%q in %q", c, line)
			}
		}
	}
}
