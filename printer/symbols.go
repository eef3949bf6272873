package printer

import (
	"github.com/reprise-go/reprise/record"
)

// symbols holds the symbols used in lines.
type symbols struct {
	tool, llm, agent, run               string // for calls and runs that begin
	completed, failed, suspended, retry string
	note                                string // for log lines, values and unknown records
	group, undo                         string
	separator, ellipsis                 string
	chart, branch, last                 string // for the summary and live lines
	guide, blank                        string // below a branch; below the last branch
	bar, rest                           string // cells of a progress bar: ended, and not ended
	spinner                             []string
}

var emoji = symbols{
	tool: "🔧", llm: "💬", agent: "🤖", run: "▶",
	completed: "✔", failed: "✖", suspended: "⏸", retry: "↻",
	note: "·", group: "▦", undo: "↩", separator: " · ", ellipsis: "…",
	chart: "📊 ", branch: "├─ ", last: "└─ ", guide: "│  ", blank: "   ",
	bar: "█", rest: "░",
	spinner: []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"},
}

var ascii = symbols{
	tool: "*", llm: ">", agent: "@", run: "#",
	completed: "+", failed: "x", suspended: "=", retry: "~",
	note: "-", group: "%", undo: "<", separator: ", ", ellipsis: "...",
	chart: "", branch: "|- ", last: "`- ", guide: "|  ", blank: "   ",
	bar: "#", rest: ".",
	spinner: []string{"|", "/", "-", `\`},
}

// kindMark returns the mark of a call or run that begins.
func (s *symbols) kindMark(k record.Kind) mark {
	switch k {
	case record.KindTool:
		return mark{s.tool, ""}
	case record.KindLLM:
		return mark{s.llm, ""}
	case record.KindAgent:
		return mark{s.agent, ""}
	case record.KindRun:
		return mark{s.run, ""}
	case record.KindGroup:
		return mark{s.group, faint}
	case record.KindCompensation:
		return mark{s.undo, ""}
	}
	return mark{s.note, faint}
}

// statusMark returns the mark of any other status.
func (s *symbols) statusMark(status record.Status) mark {
	symbol := s.note
	switch status {
	case record.StatusCompleted:
		symbol = s.completed
	case record.StatusFailed:
		symbol = s.failed
	case record.StatusInterrupted, record.StatusAwaiting, record.StatusCancelled:
		symbol = s.suspended
	case record.StatusRetrying, record.StatusRecovered:
		symbol = s.retry
	}
	return mark{symbol, styleOf(status)}
}

func styleOf(status record.Status) style {
	switch status {
	case record.StatusCompleted:
		return good
	case record.StatusFailed:
		return bad
	case record.StatusInterrupted, record.StatusAwaiting, record.StatusCancelled:
		return paused
	case record.StatusRetrying:
		return warning
	}
	return faint
}
