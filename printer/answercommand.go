package printer

import (
	"strings"
	"unicode"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// maxWord is how long an argument of a command may be, in bytes.
const maxWord = 160

// placeholder stands in a command for an answer of which no example is known.
const placeholder = "JSON"

// HowToAnswer returns in words what may be answered to a question of a run, such as
// "true or false", and the arguments of the command reprise that answers it with an
// example, such as "answer refund-7 'agent/refund?1' true", quoted for a shell. Where
// the question does not say in a few words what it takes, words is empty and JSON
// stands in place of the example. The arguments are empty if not every shell would
// read the IDs the same.
func HowToAnswer(runID string, q core.Question) (words, arguments string) {
	if q.Asks == record.AsksSignal {
		return "", howToSignal(runID, q.Text)
	}
	example := `{"decision": "run_again"}`
	if words = "completed with the output, run_again, or failed"; q.Asks != record.AsksDoubt {
		words, example = describeAnswer(q.Schema)
	} else if q.Call != nil && q.Call.Effect.CanBeTaken() {
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

// shellWord quotes s as one argument, empty if not every shell would read it the same.
func shellWord(s string) string {
	if s == "" || len(s) > maxWord || s[0] == '-' || strings.ContainsFunc(s, isAwkward) {
		return ""
	}
	if strings.ContainsFunc(s, isSpecial) {
		return "'" + s + "'"
	}
	return s
}

// jsonWord is shellWord for JSON, whose double quotes are safe within single ones.
func jsonWord(text string) string {
	if len(text) > maxWord || strings.ContainsFunc(text, func(c rune) bool { return isAwkward(c) && c != '"' }) {
		return ""
	}
	if !strings.ContainsFunc(text, func(c rune) bool { return isSpecial(c) || c == '"' }) {
		return text
	}
	return "'" + text + "'"
}

func isAwkward(c rune) bool {
	return c < ' ' || c >= 0x7f && !unicode.IsLetter(c) && !unicode.IsDigit(c) || strings.ContainsRune("'\"\\`$!", c)
}

func isSpecial(c rune) bool {
	return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("._/:-", c)
}
