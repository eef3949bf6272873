package mcp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// This file implements the server's method tools/call.

// callResult is the result of tools/call: a result, a request for input, or a task.
type callResult struct {
	sdk.ResultBase
	ResultType    string              `json:"resultType,omitempty"`
	Content       []sdk.Content       `json:"content,omitzero"`
	Structured    json.RawMessage     `json:"structuredContent,omitempty"`
	IsError       bool                `json:"isError,omitempty"`
	InputRequests sdk.InputRequestMap `json:"inputRequests,omitempty"`
	RequestState  string              `json:"requestState,omitempty"`
}

// createResult is a result of tools/call that is a task.
type createResult struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
	task
}

// A caller is the sender of a call, with its client's capabilities.
type caller struct {
	principal string
	session   *sdk.ServerSession
	modern    bool // the client speaks protocol version 2026-07-28
	tasks     bool // the client supports tasks
	elicits   bool // the client can ask its user
	token     any  // the request's progress token; nil if the client wants no progress
}

// capabilities are the client capabilities that this package uses.
type capabilities struct {
	Extensions  map[string]any `json:"extensions"`
	Elicitation any            `json:"elicitation"`
}

// metaCapabilities is the key under which a request's _meta contains the client's capabilities.
const metaCapabilities = "io.modelcontextprotocol/clientCapabilities"

// callerOf returns the caller that made a request with the given metadata.
func (s *server) callerOf(ctx context.Context, session *sdk.ServerSession, extra *sdk.RequestExtra, meta sdk.Meta) (caller, error) {
	c := caller{session: session}
	var err error
	if c.principal, err = s.principalOf(ctx, extra); err != nil {
		return c, err
	}
	if declared, ok := meta[metaCapabilities]; ok {
		var can capabilities
		raw, err := json.Marshal(declared)
		if err == nil {
			err = json.Unmarshal(raw, &can)
		}
		if err != nil {
			return c, invalid("%s: %v", metaCapabilities, err)
		}
		_, c.tasks = can.Extensions[tasksExtension]
		c.modern, c.elicits = true, can.Elicitation != nil
		return c, nil
	}
	if p := session.InitializeParams(); p != nil && p.Capabilities != nil {
		c.elicits = p.Capabilities.Elicitation != nil
	}
	return c, nil
}

func (s *server) callTool(ctx context.Context, r *sdk.CallToolRequest) (sdk.Result, error) {
	p := r.Params
	c, err := s.callerOf(ctx, r.Session, r.Extra, p.Meta)
	if err != nil {
		return nil, err
	}
	c.token = p.GetProgressToken()
	switch p.Name {
	case toolWait, toolAnswer:
		return s.callRunTool(ctx, c, p)
	}
	if p.RequestState != "" {
		return s.resumeWithAnswers(ctx, c, p)
	}
	if !s.isServed(p.Name) {
		return nil, invalid("unknown tool %q", record.Truncate(p.Name, 80))
	}
	info, err := s.start(ctx, c, p)
	if err != nil {
		return s.refused(err)
	}
	if c.tasks && !s.endsSoon(ctx, c, &info) {
		t, err := s.describeTask(ctx, &info)
		if err != nil {
			return nil, err
		}
		return &createResult{ResultType: "task", task: t.task}, nil
	}
	return s.hold(ctx, c, info.RunID, 0)
}

// endsSoon reports whether a run stops within TaskAfter without asking a question.
func (s *server) endsSoon(ctx context.Context, c caller, info *snapshot.Info) bool {
	if s.options.TaskAfter <= 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.TaskAfter)
	defer cancel()
	c.token = nil // a task makes no progress
	progress, err := s.follow(ctx, c, info.RunID, new(uint64))
	return err == nil && len(progress.questions) == 0
}

// isServed reports whether a program is served.
func (s *server) isServed(program string) bool {
	return (s.options.Only == nil || slices.Contains(s.options.Only, program)) && slices.Contains(s.runner.Programs(), program)
}

// Keys in the metadata of a run that a client started.
const (
	customTask      = "mcp"           // "task" if the run's ID is also a task ID
	customPrincipal = "mcp.principal" // the principal that started the run
)

// start starts the run for a call, or returns the run that was started earlier with the same
// idempotency key.
func (s *server) start(ctx context.Context, c caller, p *sdk.CallToolParamsRaw) (snapshot.Info, error) {
	arguments := p.Arguments
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = json.RawMessage("{}")
	}
	return s.runner.Start(ctx, p.Name, runIDOf(c, p), arguments, runner.StartOptions{
		Principal: c.principal,
		Metadata:  snapshot.Metadata{Custom: map[string]string{customTask: "task", customPrincipal: c.principal}},
	})
}

// runIDOf returns the run ID for a call. The ID is also that of the call's task, and cannot be
// guessed.
func runIDOf(c caller, p *sdk.CallToolParamsRaw) string {
	id := rand.Text()
	if key, _ := p.Meta[keyMeta].(string); key != "" {
		sum := sha256.Sum256([]byte(strings.Join([]string{c.principal, p.Name, key}, "\x00")))
		id = base32.StdEncoding.EncodeToString(sum[:])[:len(id)]
	}
	return "mcp-" + strings.ToLower(id)
}

// refused returns the result for a call whose run could not be started. If the model can fix the
// problem, it is reported as an error from the tool, so that the model sees it.
func (s *server) refused(err error) (sdk.Result, error) {
	var arguments *actors.ArgumentsError
	switch {
	case errors.As(err, &arguments):
		return errorResult(arguments.Error()), nil
	case errors.Is(err, runner.ErrInput), errors.Is(err, runner.ErrTooMany), errors.Is(err, runner.ErrStopping), errors.Is(err, runner.ErrStarted):
		return errorResult(err.Error()), nil
	}
	return nil, err
}

// find returns a run that the caller started.
func (s *server) find(ctx context.Context, c caller, runID string) (snapshot.Info, error) {
	info, err := s.runner.Info(ctx, runID)
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) && snapshot.CheckRunID(runID) == nil {
		return info, err
	}
	if custom := info.Metadata.Custom; err != nil || custom[customTask] != "task" || custom[customPrincipal] != c.principal {
		return info, invalid("there is no task %q", record.Truncate(runID, 80))
	}
	return info, nil
}

// resumeWithAnswers answers the questions that the client was asked, and then waits for the run, as
// hold does.
func (s *server) resumeWithAnswers(ctx context.Context, c caller, p *sdk.CallToolParamsRaw) (sdk.Result, error) {
	runID, told := readState(p.RequestState)
	info, err := s.find(ctx, c, runID)
	if err != nil {
		return nil, err
	}
	declined, err := s.answer(ctx, c, info.RunID, func(question string) (*sdk.ElicitResult, error) {
		response, _ := p.InputResponses[question].(*sdk.ElicitResult)
		return response, nil
	})
	if err != nil {
		return nil, err
	}
	if declined {
		return s.openQuestions(ctx, info.RunID)
	}
	return s.hold(ctx, c, info.RunID, told)
}

// stateOf returns the requestState for a call whose run asks a question. It contains the run's ID and
// the number of the last record that was reported to the client, so it differs from one round to the
// next.
func stateOf(runID string, told uint64) string { return runID + "~" + strconv.FormatUint(told, 10) }

func readState(state string) (runID string, told uint64) {
	runID, number, _ := strings.Cut(state, "~")
	told, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return state, 0 // no run has this ID
	}
	return runID, told
}

// hold waits until a run has stopped or asks a question, but no longer than HoldFor. Meanwhile it
// sends the records with numbers above told to the client as progress.
func (s *server) hold(ctx context.Context, c caller, runID string, told uint64) (sdk.Result, error) {
	deadline := time.Now().Add(s.options.HoldFor)
	for {
		holding, cancel := context.WithDeadline(ctx, deadline)
		progress, err := s.follow(holding, c, runID, &told)
		isOver := holding.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case isOver:
			return textResult("The run %s of %s is still running. Call %s with {\"run\": %q} to wait for its result.", runID, progress.info.Program, toolWait, runID), nil
		case err != nil:
			return nil, err
		case len(progress.questions) == 0:
			return s.outcome(ctx, &progress.info)
		case !c.elicits:
			return s.openQuestions(ctx, runID)
		case c.modern:
			return &callResult{ResultType: "input_required", InputRequests: requestsOf(progress.questions), RequestState: stateOf(runID, max(told, progress.info.LastSeq))}, nil
		}
		declined, err := s.elicit(ctx, c, runID, progress.questions)
		if err != nil {
			return nil, err
		}
		if declined {
			return s.openQuestions(ctx, runID)
		}
	}
}

// A progress is the state in which follow left a run.
type progress struct {
	info      snapshot.Info
	questions []core.Question // open questions that a person has to answer
}

// follow waits until a run has stopped or waits for an answer, or ctx ends. It notifies the client of
// each of the run's records, since many clients give up on a request that makes no progress. Records
// from before the watch begins are read first, so that a short run reports its progress too.
func (s *server) follow(ctx context.Context, c caller, runID string, told *uint64) (p progress, err error) {
	isFirst := true
	for e, err := range s.runner.Store().Watch(ctx, snapshot.WatchOptions{RunID: runID, Records: true}) {
		switch {
		case err != nil:
			return p, err
		case e.Deleted:
			return p, invalid("the run %s was deleted", runID)
		}
		if isFirst && c.token != nil {
			err = s.tellStored(ctx, c, runID, told)
		}
		isFirst = false
		for i := range e.Records {
			c.tell(ctx, &e.Records[i], told)
		}
		p.info = e.Info
		if err != nil || hasStopped(&p.info) {
			return p, err
		}
		if p.questions, err = s.questions(ctx, runID); err != nil {
			return p, err
		}
		if len(p.questions) > 0 {
			return p, s.tellStored(ctx, c, runID, told) // the run may have advanced since the event
		}
	}
	return p, ctx.Err()
}

// tellStored notifies a client of a run's stored records whose numbers are above told.
func (s *server) tellStored(ctx context.Context, c caller, runID string, told *uint64) error {
	for r, err := range s.runner.Store().Records(ctx, runID, *told) {
		if err != nil {
			return err
		}
		c.tell(ctx, &r, told)
	}
	return nil
}

// tell notifies the client of a record with a number above told, if the client wants progress.
func (c *caller) tell(ctx context.Context, r *record.Record, told *uint64) {
	if r.Seq <= *told {
		return
	}
	*told = r.Seq
	if c.token == nil {
		return
	}
	_ = c.session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: c.token, Progress: float64(r.Seq), Message: progressMessage(r)}) // the client may be gone
}

// progressMessage describes a record in words.
func progressMessage(r *record.Record) string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", strings.TrimSuffix(r.Kind.String(), "_call"), r.Name, r.Status)), " ") // a run may have no name
}

// hasStopped reports whether a run has ended or was interrupted. A run whose process crashed has not
// stopped, since a runner resumes it.
func hasStopped(info *snapshot.Info) bool {
	switch info.Status {
	case snapshot.StatusCompleted, snapshot.StatusFailed, snapshot.StatusCancelled:
		return !info.Open
	case snapshot.StatusInterrupted:
		return !info.Open && info.Stop.Reason != record.InterruptCrash
	}
	return false
}

// questions returns a run's open questions that a person has to answer.
func (s *server) questions(ctx context.Context, runID string) ([]core.Question, error) {
	open, err := s.runner.Questions(ctx, runID)
	return slices.DeleteFunc(open, func(q core.Question) bool { return !q.Awaits.NeedsAnswer() }), err
}

// outcome returns the tool result for a run that has stopped.
func (s *server) outcome(ctx context.Context, info *snapshot.Info) (*callResult, error) {
	switch info.Status {
	case snapshot.StatusCancelled:
		return errorResult("the run was cancelled" + afterColon(info.Stop.Message)), nil
	case snapshot.StatusInterrupted:
		return errorResult(fmt.Sprintf("the run %s was interrupted%s; when it is resumed, call %s with {\"run\": %q}", info.RunID, afterColon(info.Stop.Message), toolWait, info.RunID)), nil
	}
	out, err := s.runner.Result(ctx, info.RunID)
	if err != nil {
		switch {
		case errors.Is(err, core.ErrPanic): // not a failure that a tool reports
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: record.Truncate(err.Error(), record.MessageLimit)}
		case info.Status == snapshot.StatusFailed:
			return errorResult(err.Error()), nil
		}
		return nil, err
	}
	return resultOf(out)
}

// resultOf returns a program's output as a tool result.
func resultOf(out any) (*callResult, error) {
	r := &callResult{ResultType: "complete"}
	switch out := out.(type) {
	case string:
		return textResult("%s", out), nil
	case actors.ToolOutput:
		r.Content = contentOf(out.Text, out.Parts)
		return r, nil
	case interface{ ToolResult() string }:
		return textResult("%s", out.ToolResult()), nil
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("mcp: encode the run's output: %w", err)
	}
	r.Content = []sdk.Content{&sdk.TextContent{Text: string(raw)}}
	if len(raw) > 0 && raw[0] == '{' {
		r.Structured = raw
	}
	return r, nil
}

func contentOf(text string, parts []actors.Part) []sdk.Content {
	content := []sdk.Content{}
	if text != "" {
		content = append(content, &sdk.TextContent{Text: text})
	}
	for _, p := range parts {
		switch {
		case p.Text != "":
			content = append(content, &sdk.TextContent{Text: p.Text})
		case p.URL != "":
			content = append(content, &sdk.ResourceLink{URI: p.URL, Name: p.Name, MIMEType: p.MIME})
		case strings.HasPrefix(p.MIME, "image/"):
			content = append(content, &sdk.ImageContent{MIMEType: p.MIME, Data: p.Data})
		case strings.HasPrefix(p.MIME, "audio/"):
			content = append(content, &sdk.AudioContent{MIMEType: p.MIME, Data: p.Data})
		default:
			content = append(content, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///" + p.Name, MIMEType: p.MIME, Blob: p.Data}})
		}
	}
	return content
}

func textResult(format string, args ...any) *callResult {
	return &callResult{ResultType: "complete", Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func errorResult(message string) *callResult {
	r := textResult("%s", record.Truncate(message, record.MessageLimit))
	r.IsError = true
	return r
}

// openQuestions returns the tool result for a call whose run waits for an answer, if the client
// cannot ask its user or the user declined. The result explains how to answer.
func (s *server) openQuestions(ctx context.Context, runID string) (sdk.Result, error) {
	open, err := s.questions(ctx, runID)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The run %s waits for an answer. Do not make one up: ask the user. Then call %s with {\"run\": %q, \"question\": …, \"answer\": …}, where the answer matches its JSON schema.\n", runID, toolAnswer, runID)
	for _, q := range open {
		fmt.Fprintf(&b, "question %q: %s\n", q.ID, q.Text)
		if q.Refused != "" {
			fmt.Fprintf(&b, "  %s\n", q.Refused)
		}
		of := ""
		if q.Awaits == record.AwaitDecision {
			takeOver := ""
			if canTakeOver(&q) {
				takeOver = `{"decision": "take_over"}, `
			}
			fmt.Fprintf(&b, "  answer: %s{\"decision\": \"completed\", \"output\": …}, {\"decision\": \"run_again\"} or {\"decision\": \"failed\", \"message\": \"…\"}\n", takeOver)
			of = " of the output"
		}
		if len(q.Schema) > 0 {
			fmt.Fprintf(&b, "  schema%s: %s\n", of, q.Schema)
		}
	}
	return textResult("%s", strings.TrimSpace(b.String())), nil
}

// The tools for clients that do not support tasks.
const (
	toolWait   = "run_wait"
	toolAnswer = "run_answer"
)

func (s *server) runTools() []*sdk.Tool {
	yes := true
	return []*sdk.Tool{
		{
			Name: toolWait, Description: "Waits for a run that an earlier call started, and returns its result.",
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"run":{"type":"string","description":"the ID of the run"}},"required":["run"],"additionalProperties":false}`),
		},
		{
			Name: toolAnswer, Description: "Answers a question of a run that an earlier call started, in the words of the user, and returns the result of the run.",
			Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"run":{"type":"string","description":"the ID of the run"},"question":{"type":"string","description":"the ID of the question"},"answer":{"description":"the user's answer, in the form that the question asks for"}},"required":["run","question","answer"],"additionalProperties":false}`),
		},
	}
}

// callRunTool handles a call to one of the tools for clients without tasks.
func (s *server) callRunTool(ctx context.Context, c caller, p *sdk.CallToolParamsRaw) (sdk.Result, error) {
	var in struct {
		Run      string          `json:"run"`
		Question string          `json:"question"`
		Answer   json.RawMessage `json:"answer"`
	}
	if len(p.Arguments) == 0 || json.Unmarshal(p.Arguments, &in) == nil && in.Run == "" {
		return errorResult(`invalid arguments: run is missing; want the ID of a run, such as {"run": "mcp-…"}`), nil
	}
	if err := json.Unmarshal(p.Arguments, &in); err != nil {
		return errorResult("invalid arguments: " + err.Error()), nil
	}
	info, err := s.find(ctx, c, in.Run)
	if err != nil {
		return errorResult(err.Error()), nil
	}
	if p.Name == toolAnswer {
		value, err := state.JSONAnswer(in.Answer)
		if err == nil {
			err = s.runner.Answer(ctx, info.RunID, in.Question, c.principal, value)
		}
		if err != nil {
			return errorResult(err.Error()), nil
		}
	}
	return s.hold(ctx, c, info.RunID, info.LastSeq)
}
