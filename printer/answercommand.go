package printer

import (
	"strings"
	"unicode"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// maxWord is the maximum length in bytes of a quoted command argument.
const maxWord = 160

// placeholder replaces the answer in a command if no example is known.
const placeholder = "JSON"

// undecided is the example for a call in doubt. As an answer it is refused, with the list
// of decisions: nobody should make a payment again by pasting an example.
const undecided = `{"decision": "DECISION"}`

// HowToAnswer describes the possible answers to a question of a run. The returned words
// are a phrase such as "true or false". The arguments are those of the reprise command
// that gives an example answer, quoted for a shell, such as "answer refund-7
// 'agent/refund?1' true". If the schema of the question cannot be described in a few
// words, words is empty and JSON takes the place of the example. The example for a call in
// doubt has to be filled in. If the IDs cannot be quoted portably, both results are empty.
func HowToAnswer(runID string, q core.Question) (words, arguments string) {
	if q.Awaits == record.AwaitSignal {
		return "", howToSignal(runID, q.Text)
	}
	example := undecided
	if words = "completed with the output, run_again, or failed"; q.Awaits != record.AwaitDecision {
		words, example = describeAnswer(q.Schema)
	} else if q.InDoubt != nil && q.InDoubt.Effect.CanBeTakenOver() {
		words, example = "take_over, completed with the output, run_again, or failed", `{"decision": "take_over"}`
	}
	run, id, answer := shellWord(runID), shellWord(q.ID), jsonWord(example)
	if run == "" || id == "" {
		return "", ""
	}
	if words == "" || answer == "" {
		words, answer = "", placeholder
	}
	return words, "answer " + run + " " + id + " " + answer
}

func howToSignal(runID, name string) string {
	run, name := shellWord(runID), shellWord(name)
	if run == "" || name == "" {
		return ""
	}
	return "signal " + run + " " + name + " " + placeholder
}

// shellWord returns s quoted as one shell argument. It returns "" if s cannot be quoted
// portably.
func shellWord(s string) string {
	if s == "" || len(s) > maxWord || s[0] == '-' || strings.ContainsFunc(s, isUnquotable) {
		return ""
	}
	if strings.ContainsFunc(s, isSpecial) {
		return "'" + s + "'"
	}
	return s
}

// jsonWord is like shellWord for JSON text. Unlike shellWord it accepts double quotes,
// which are safe inside single quotes.
func jsonWord(text string) string {
	if len(text) > maxWord || strings.ContainsFunc(text, func(c rune) bool { return isUnquotable(c) && c != '"' }) {
		return ""
	}
	if !strings.ContainsFunc(text, func(c rune) bool { return isSpecial(c) || c == '"' }) {
		return text
	}
	return "'" + text + "'"
}

func isUnquotable(c rune) bool {
	return c < ' ' || c >= 0x7f && !unicode.IsLetter(c) && !unicode.IsDigit(c) || strings.ContainsRune("'\"\\`$!", c)
}

func isSpecial(c rune) bool {
	return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("._/:-", c)
}
