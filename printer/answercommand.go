package printer

import (
	"strings"
	"unicode"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// maxWord is the maximum length, in bytes, of a quoted argument in a command.
const maxWord = 160

// placeholder is used in a command if no example of an answer is known, and for the output of a
// call in doubt. It is not valid JSON, so that pasting the command unchanged does not answer the
// question.
const placeholder = "JSON"

// HowToAnswer describes the possible answers to a question of a run. The returned words are a
// phrase such as "true or false". Each of the returned commands consists of the arguments of a
// reprise command that gives an example of an answer, quoted for a shell, such as "answer refund-7
// 'agent/refund?1' true". Usually there is one command. If the question is about a call in doubt,
// there is one command for each possible decision, with JSON or "..." in place of the output. If
// the question's schema cannot be described in a few words, words is empty and JSON stands in place
// of the answer. If the IDs cannot be quoted portably, both results are empty.
func HowToAnswer(runID string, q core.Question) (words string, commands []string) {
	if q.Awaits == record.AwaitSignal {
		return "", howToSignal(runID, q.Text)
	}
	run, id := shellWord(runID), shellWord(q.ID)
	if run == "" || id == "" {
		return "", nil
	}
	answer := q.Schema
	if q.Awaits == record.AwaitDecision {
		answer = schema.OutputOfDecision(q.Schema)
	}
	words, example := describeAnswer(answer)
	answers := []string{jsonWord(example)}
	if q.Awaits == record.AwaitDecision {
		if answers[0] == "" {
			words = ""
		}
		output := placeholder
		if describesString(answer) {
			output = `"..."`
		}
		words, answers = decisions(&q, words, output)
	}
	if words == "" || answers[0] == "" {
		words, answers = "", []string{placeholder}
	}
	for _, answer := range answers {
		commands = append(commands, "answer "+run+" "+id+" "+answer)
	}
	return words, commands
}

// decisions returns the possible answers to a question about a call in doubt. described is a
// description of the call's output, or empty. output is an example of the output.
func decisions(q *core.Question, described, output string) (words string, answers []string) {
	if described != "" {
		described = " (" + described + ")"
	}
	words = "completed with the output" + described + ", run_again, or failed"
	if q.InDoubt != nil && q.InDoubt.Effect.CanBeTakenOver() {
		words, answers = "take_over, "+words, []string{`'{"decision": "take_over"}'`}
	}
	return words, append(answers, `'{"decision": "completed", "output": `+output+`}'`, `'{"decision": "run_again"}'`, `'{"decision": "failed", "message": "why"}'`)
}

func howToSignal(runID, name string) []string {
	run, name := shellWord(runID), shellWord(name)
	if run == "" || name == "" {
		return nil
	}
	return []string{"signal " + run + " " + name + " " + placeholder}
}

// shellWord returns s quoted as a single shell argument, or "" if s cannot be quoted portably.
func shellWord(s string) string {
	if s == "" || len(s) > maxWord || s[0] == '-' || strings.ContainsFunc(s, isUnquotable) {
		return ""
	}
	if strings.ContainsFunc(s, isSpecial) {
		return "'" + s + "'"
	}
	return s
}

// jsonWord is like shellWord, but for JSON text: it also accepts double quotes, which are
// safe inside single quotes.
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
