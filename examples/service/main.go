package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
)

func main() {
	o := service.Options{
		Dir: filepath.Join(os.TempDir(), "reprise-service"), Thread: assistant.Name(),
		Routes: map[string]http.Handler{"GET /chat/{$}": http.HandlerFunc(serveChat)},
	}
	o.Ready = func(url string) { fmt.Print(welcome(url)) }
	service.MainWith(o, register)
}

// register registers the agents.
func register(r *runner.Runner) error {
	runner.Register(r, report)
	runner.Register(r, refund)
	runner.Register(r, reminder)
	runner.Register(r, conversation.NewProgram(r.Store(), assistant))
	return nil
}

// welcome returns a text with commands that start runs.
func welcome(url string) string {
	post := func(path, body string) string {
		return fmt.Sprintf("  curl -s %s%s -H 'Content-Type: application/json' -d '%s'\n", url, path, body)
	}
	get := func(path string) string { return fmt.Sprintf("  curl -s %s%s\n", url, path) }
	var b strings.Builder
	fmt.Fprintf(&b, "The runs are at %s\n\n", url)
	fmt.Fprintf(&b, "A chat is at %schat/: kill the service while it answers, and start it again.\n\n", url)
	b.WriteString("A report takes 10 seconds; kill the service in the meantime, and start it again:\n")
	b.WriteString(post("api/runs", `{"program": "report", "run_id": "report-1", "input": {"topic": "tides", "sections": 5}}`))
	b.WriteString(get("api/runs/report-1/result"))
	b.WriteString("\nA refund asks first:\n")
	b.WriteString(post("api/runs", `{"program": "refund", "run_id": "refund-1", "input": {"order": "A-17", "euros": 40}}`))
	b.WriteString(post("api/runs/refund-1/answer", `{"question": "refund?1", "value": true}`))
	b.WriteString(get("api/runs/refund-1/result"))
	b.WriteString("\nA reminder sleeps, even across restarts:\n")
	b.WriteString(post("api/runs", `{"program": "reminder", "run_id": "reminder-1", "input": {"text": "tea", "seconds": 90}}`))
	b.WriteString(get("api/runs/reminder-1/result"))
	b.WriteString("\nList all runs, cancel one, and show the metrics of the service:\n")
	b.WriteString(get("api/runs"))
	b.WriteString(post("api/runs/reminder-1/cancel", `{"by": "you", "message": "no more tea"}`))
	b.WriteString(get("debug/vars"))
	return b.String() + "\n"
}
