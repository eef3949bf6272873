package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// This file implements the server's methods tasks/get, tasks/update and tasks/cancel. A task is a
// run.

// updateParams are the parameters of tasks/update.
type updateParams struct {
	sdk.ParamsBase
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
}

// responseTo returns the response to a question, or nil if p contains no response to
// that question.
func (p *updateParams) responseTo(question string) (*sdk.ElicitResult, error) {
	raw, ok := p.InputResponses[question]
	if !ok {
		return nil, nil
	}
	response := new(sdk.ElicitResult)
	if err := json.Unmarshal(raw, response); err != nil {
		return nil, err
	}
	return response, nil
}

// describedTask is the result of tasks/get.
type describedTask struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
	task
	InputRequests sdk.InputRequestMap `json:"inputRequests,omitempty"`
	Result        *callResult         `json:"result,omitempty"`
	Error         *jsonrpc.Error      `json:"error,omitempty"`
}

// acknowledgement is the result of tasks/update and tasks/cancel.
type acknowledgement struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

func (s *server) addTaskMethods(served *sdk.Server) {
	err := errors.Join(
		sdk.AddReceivingCustomMethod(served, methodGetTask, func(ctx context.Context, session *sdk.ServerSession, p *taskParams) (*describedTask, error) {
			info, _, err := s.findTask(ctx, session, p)
			if err != nil {
				return nil, err
			}
			return s.describeTask(ctx, &info)
		}),
		sdk.AddReceivingCustomMethod(served, methodUpdateTask, func(ctx context.Context, session *sdk.ServerSession, p *updateParams) (*acknowledgement, error) {
			if p == nil {
				p = new(updateParams)
			}
			info, c, err := s.findTask(ctx, session, &taskParams{p.ParamsBase, p.TaskID})
			if err == nil {
				_, err = s.answer(ctx, c, info.RunID, p.responseTo)
			}
			return &acknowledgement{ResultType: "complete"}, err
		}),
		sdk.AddReceivingCustomMethod(served, methodCancelTask, func(ctx context.Context, session *sdk.ServerSession, p *taskParams) (*acknowledgement, error) {
			info, c, err := s.findTask(ctx, session, p)
			if err == nil {
				err = s.runner.Cancel(ctx, info.RunID, snapshot.Stop{By: c.principal, Message: "cancelled by the client"})
			}
			if errors.Is(err, state.ErrNotRunning) || errors.Is(err, state.ErrEnded) {
				err = nil // the run has ended
			}
			return &acknowledgement{ResultType: "complete"}, err
		}),
	)
	if err != nil {
		panic(err) // cannot happen: the methods are not standard methods
	}
}

// findTask returns the run behind a task that the caller started.
func (s *server) findTask(ctx context.Context, session *sdk.ServerSession, p *taskParams) (snapshot.Info, caller, error) {
	if p == nil {
		p = new(taskParams)
	}
	c, err := s.callerOf(ctx, session, p.Meta)
	if err != nil {
		return snapshot.Info{}, c, err
	}
	if !c.tasks {
		data, err := json.Marshal(map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasksExtension: map[string]any{}}}})
		if err != nil {
			return snapshot.Info{}, c, err
		}
		return snapshot.Info{}, c, &jsonrpc.Error{Code: codeMissingCapability, Message: "Missing required client capability", Data: data}
	}
	if extra := extraOf(ctx); c.modern && extra != nil && extra.Header != nil && extra.Header.Get("Mcp-Name") != p.TaskID {
		return snapshot.Info{}, c, &jsonrpc.Error{
			Code: sdk.CodeHeaderMismatch, Message: fmt.Sprintf("the header Mcp-Name is %q, want the taskId of the request", record.Truncate(extra.Header.Get("Mcp-Name"), 80)),
		}
	}
	info, err := s.find(ctx, c, p.TaskID)
	return info, c, err
}

// describeTask describes a run as a task.
func (s *server) describeTask(ctx context.Context, info *snapshot.Info) (*describedTask, error) {
	t := &describedTask{ResultType: "complete", task: task{
		TaskID: info.RunID, Status: taskWorking,
		CreatedAt: info.Created.UTC().Format(time.RFC3339Nano), LastUpdatedAt: info.Updated.UTC().Format(time.RFC3339Nano),
		PollInterval: float64(s.options.PollInterval.Milliseconds()),
	}}
	if !info.Expires.IsZero() {
		ttl := info.Expires.Sub(info.Created).Milliseconds()
		t.TTL = &ttl
	}
	switch info.Status {
	case snapshot.StatusCompleted, snapshot.StatusFailed:
		if info.Open {
			return t, nil // the run is being closed
		}
		result, err := s.outcome(ctx, info)
		if err != nil {
			t.Status, t.Error = taskFailed, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
			var wire *jsonrpc.Error
			if errors.As(err, &wire) {
				t.Error = wire
			}
			return t, nil
		}
		result.ResultType = "complete"
		t.Status, t.Result = taskCompleted, result
		return t, nil
	case snapshot.StatusCancelled:
		t.Status, t.StatusMessage = taskCancelled, info.Stop.Message
		return t, nil
	case snapshot.StatusInterrupted:
		continues := "when it is resumed"
		if continuesByItself(info) {
			continues = "by itself"
		}
		t.StatusMessage = fmt.Sprintf("the run was interrupted (%s)%s; it continues %s", info.Stop.Reason, afterColon(info.Stop.Message), continues)
		return t, nil
	case snapshot.StatusQueued:
		t.StatusMessage = "the run has not started yet"
		return t, nil
	}
	open, err := s.questions(ctx, info.RunID)
	if err != nil {
		return nil, err
	}
	if len(open) > 0 {
		t.Status, t.InputRequests = taskInputRequired, requestsOf(open)
	}
	return t, nil
}
