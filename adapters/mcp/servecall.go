package mcp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// This file implements the server's tools/call method.

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

// A caller is the sender of a call, together with its client's capabilities.
type caller struct {
	principal string
	session   *sdk.ServerSession
	modern    bool // the client speaks protocol version 2026-07-28
	tasks     bool // the client supports tasks
	elicits   bool // the client can ask its user
	token     any  // the request's progress token; nil if the client does not want progress reports
}

// capabilities are the client capabilities that this package uses.
type capabilities struct {
	Extensions  map[string]any `json:"extensions"`
	Elicitation any            `json:"elicitation"`
}

// metaCapabilities is the key under which a request's _meta contains the client's capabilities.
const metaCapabilities = "io.modelcontextprotocol/clientCapabilities"

// callerOf returns the caller that made a request with the given metadata.
func (s *server) callerOf(ctx context.Context, session *sdk.ServerSession, meta sdk.Meta) (caller, error) {
	c := caller{session: session}
	var err error
	if c.principal, err = s.principalOf(ctx); err != nil {
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
	c, err := s.callerOf(ctx, r.Session, p.Meta)
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
	c.token = nil // a task does not report progress
	progress, err := s.follow(ctx, c, info.RunID, new(uint64))
	return err == nil && hasStopped(&progress.info)
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

// start starts the run for a call, or returns the run that was already started with the same
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

// runIDOf returns the run ID for a call. It is also the ID of the call's task, and cannot be
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
