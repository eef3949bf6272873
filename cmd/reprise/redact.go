package main

import (
	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/snapshot"
)

// redaction is the flag --redact, which hides matching text in the output. It is needed because
// the store keeps unredacted text, even if the program redacts it for display.
type redaction struct {
	pattern string
	rules   *redact.Rules // nil if the flag is not set
}

func (r *redaction) flag(cmd *cobra.Command) {
	cmd.Flags().Var(r, "redact", "replace matches of the `regexp` in texts, errors, inputs and outputs with \"(redacted)\"")
	_ = cmd.RegisterFlagCompletionFunc("redact", cobra.NoFileCompletions)
}

// String implements pflag.Value.
func (r *redaction) String() string { return r.pattern }

// Type implements pflag.Value.
func (r *redaction) Type() string { return "regexp" }

// Set implements pflag.Value.
func (r *redaction) Set(pattern string) (err error) {
	r.pattern = pattern
	r.rules, err = redact.New(pattern)
	return err
}

func (r *redaction) text(text string) string {
	if r.rules == nil {
		return text
	}
	return r.rules.Text(text)
}

// truncatedText redacts text that may be truncated.
func (r *redaction) truncatedText(text string) string {
	if r.rules == nil {
		return text
	}
	return redact.Beginning(r.rules, text)
}

// function returns the redaction as a function, or nil if the flag is not set.
func (r *redaction) function() func(string) string {
	if r.rules == nil {
		return nil
	}
	return r.text
}

// redaction returns the redaction as an interface, or nil if the flag is not set.
func (r *redaction) redaction() redact.Redaction {
	if r.rules == nil {
		return nil
	}
	return r.rules
}

// apply redacts a loaded run.
func (r *redaction) apply(found *snapshot.Snapshot) {
	redact := r.function()
	found.Metadata.Description = r.text(found.Metadata.Description)
	found.Stop.Message = r.text(found.Stop.Message)
	found.Summary = found.Summary.Clone()
	for i := range found.Summary.Questions {
		found.Summary.Questions[i].Text = r.truncatedText(found.Summary.Questions[i].Text)
	}
	if last := found.Summary.LastError; last != nil {
		last.Message = r.truncatedText(last.Message)
	}
	for i := range found.Records {
		found.Records[i] = found.Records[i].Redacted(redact)
	}
}

// question returns a redacted copy of q.
func (r *redaction) question(q core.Question) core.Question {
	q.Text, q.Refused = r.text(q.Text), r.text(q.Refused)
	rec := record.Record{Detail: &record.Detail{InDoubt: q.InDoubt}}
	if redact := r.function(); redact != nil {
		rec = rec.Redacted(redact)
	}
	q.InDoubt = rec.Detail.InDoubt
	return q
}
