package printer

import "github.com/reprise-go/reprise/core"

// symbols are the signs in lines.
type symbols struct {
	tool, llm, agent, run               string // of what begins
	completed, failed, suspended, retry string
	note                                string // of a log line, a value, an unknown record
	group                               string
	separator, ellipsis                 string
	chart, branch, last                 string // of the summary and of live lines
	guide, blank                        string // below a branch, below the last branch
	bar, rest                           string // of a bar: ended, not ended
	spinner                             []string
}

var emoji = symbols{
	tool: "🔧", llm: "💬", agent: "🤖", run: "▶",
	completed: "✔", failed: "✖", suspended: "⏸", retry: "↻",
	note: "·", group: "▦", separator: " · ", ellipsis: "…",
	chart: "📊 ", branch: "├─ ", last: "└─ ", guide: "│  ", blank: "   ",
	bar: "█", rest: "░",
	spinner: []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"},
}

var ascii = symbols{
	tool: "*", llm: ">", agent: "@", run: "#",
	completed: "+", failed: "x", suspended: "=", retry: "~",
	note: "-", group: "%", separator: ", ", ellipsis: "...",
	chart: "", branch: "|- ", last: "`- ", guide: "|  ", blank: "   ",
	bar: "#", rest: ".",
	spinner: []string{"|", "/", "-", `\`},
}

// of is the mark of what begins.
func (s *symbols) of(k core.Kind) mark {
	switch k {
	case core.KindTool:
		return mark{s.tool, ""}
	case core.KindLLM:
		return mark{s.llm, ""}
	case core.KindAgent:
		return mark{s.agent, ""}
	case core.KindRun:
		return mark{s.run, ""}
	case core.KindGroup:
		return mark{s.group, faint}
	}
	return mark{s.note, faint}
}

// at is the mark of any other status.
func (s *symbols) at(status core.Status) mark {
	symbol := s.note
	switch status {
	case core.StatusCompleted:
		symbol = s.completed
	case core.StatusFailed:
		symbol = s.failed
	case core.StatusInterrupted, core.StatusAwaiting, core.StatusCancelled:
		symbol = s.suspended
	case core.StatusRetrying, core.StatusRecovered:
		symbol = s.retry
	}
	return mark{symbol, styleOf(status)}
}

func styleOf(status core.Status) style {
	switch status {
	case core.StatusCompleted:
		return good
	case core.StatusFailed:
		return bad
	case core.StatusInterrupted, core.StatusAwaiting, core.StatusCancelled:
		return paused
	case core.StatusRetrying:
		return again
	}
	return faint
}
