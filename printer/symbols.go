package printer

import "github.com/reprise-go/reprise/core"

// symbols is what lines are decorated with.
type symbols struct {
	tool, llm, agent, run               string // what begins
	completed, failed, suspended, retry string
	note                                string // a log, a value, what is unknown
	separator, ellipsis                 string
	chart, branch, last                 string // of the summary
}

var emoji = symbols{
	tool: "🔧", llm: "💬", agent: "🤖", run: "▶",
	completed: "✔", failed: "✖", suspended: "⏸", retry: "↻",
	note: "·", separator: " · ", ellipsis: "…",
	chart: "📊 ", branch: "├─ ", last: "└─ ",
}

var ascii = symbols{
	tool: "*", llm: ">", agent: "@", run: "#",
	completed: "+", failed: "x", suspended: "=", retry: "~",
	note: "-", separator: ", ", ellipsis: "...",
	chart: "", branch: "|- ", last: "`- ",
}

// of is the symbol of what begins.
func (s *symbols) of(k core.Kind) string {
	switch k {
	case core.KindTool:
		return s.tool
	case core.KindLLM:
		return s.llm
	case core.KindAgent:
		return s.agent
	case core.KindRun:
		return s.run
	}
	return s.note
}

// at is the symbol of a status that is no beginning.
func (s *symbols) at(status core.Status) string {
	switch status {
	case core.StatusCompleted:
		return s.completed
	case core.StatusFailed:
		return s.failed
	case core.StatusInterrupted, core.StatusAwaiting:
		return s.suspended
	case core.StatusRetrying, core.StatusRecovered:
		return s.retry
	}
	return s.note
}
