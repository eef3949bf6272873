package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
)

// This file contains the parts of the tasks extension that client and server share, and the parts
// that only the client needs.

// The extension and its methods.
const (
	tasksExtension   = "io.modelcontextprotocol/tasks"
	methodGetTask    = "tasks/get"
	methodUpdateTask = "tasks/update"
	methodCancelTask = "tasks/cancel"
)

// The states of a task.
const (
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskFailed        = "failed"
	taskCancelled     = "cancelled"
)

// A task is the state of a protocol task, as reported by the server.
type task struct {
	TaskID        string  `json:"taskId,omitempty"`
	Status        string  `json:"status,omitempty"`
	StatusMessage string  `json:"statusMessage,omitempty"`
	CreatedAt     string  `json:"createdAt,omitempty"`
	LastUpdatedAt string  `json:"lastUpdatedAt,omitempty"`
	TTL           *int64  `json:"ttlMs"`
	PollInterval  float64 `json:"pollIntervalMs,omitempty"`
}

// taskParams are the parameters of tasks/get and tasks/cancel.
type taskParams struct {
	sdk.ParamsBase
	TaskID string `json:"taskId"`
}

// taskResult is the result of tasks/get, tasks/update and tasks/cancel as the SDK decodes it.
// The full result is read through the tap.
type taskResult struct{ sdk.ResultBase }

// abilities describe what a server supports.
type abilities struct {
	tasks bool // the server may answer with a task
	keys  bool // the server accepts idempotency keys; see keyMeta
}

func abilitiesOf(r *sdk.InitializeResult) (can abilities) {
	if r != nil && r.Capabilities != nil {
		_, can.tasks = r.Capabilities.Extensions[tasksExtension]
		_, can.keys = r.Capabilities.Extensions[keyMeta]
	}
	return can
}

// begun is the outcome of a call to a tool on a server that supports tasks: an output or a task.
type begun struct {
	Output actors.ToolOutput `json:"output,omitzero"`
	Task   string            `json:"task,omitempty"`
	Poll   time.Duration     `json:"poll,omitempty"` // the interval that the server suggests
	Began  time.Time         `json:"began,omitzero"` // when the client was told of the task
}

// polled is the outcome of polling a task for some time: the task's output, or how long to wait
// before the next poll.
type polled struct {
	Output actors.ToolOutput `json:"output,omitzero"`
	Wait   time.Duration     `json:"wait,omitempty"`
}

// taskHandler returns the handler for a tool whose server may answer with tasks. The request is a
// separate call named "begin". Its record keeps the task's ID before the task is polled. When the
// run is resumed, the surrounding call is entered again and polls the existing task.
//
// Each sleep is preceded by a step that records how long to sleep. Outside of recorded calls, the
// handler asks the server nothing: what it does depends only on the records, so a resumed run
// repeats its sleeps even if the task has ended in the meantime.
func (c *Client) taskHandler(l *ListedTool) core.Handler[json.RawMessage, actors.ToolOutput] {
	spec := core.Spec{Kind: record.KindTool, Name: "begin", Description: l.Description, AttemptTimeout: core.NoTimeout, Irreversible: l.isIrreversible()}
	if !l.isSafe() {
		spec.InDoubt = c.options.InDoubt
	}
	begin, err := core.NewDefinition(spec, func(ctx context.Context, arguments json.RawMessage) (begun, error) {
		r, err := c.call(ctx, l, arguments)
		switch {
		case err != nil:
			return begun{}, err
		case r.ResultType != "task":
			out, err := r.output(c.options.ForUsers)
			return begun{Output: out}, l.inDoubt(err)
		}
		b, err := r.begun()
		return b, l.inDoubt(err)
	})
	poll, err2 := core.NewDefinition(core.Spec{Kind: record.KindStep, Name: "poll", Retry: &core.RetryConfig{MaxAttempts: 100, MaxDelay: time.Minute}},
		func(ctx context.Context, b begun) (polled, error) { return c.poll(ctx, b, parkAfter) })
	if err := errors.Join(err, err2); err != nil {
		panic(err) // cannot happen: the specs are valid
	}
	return func(ctx context.Context, arguments json.RawMessage) (actors.ToolOutput, error) {
		b, err := begin.Event().Execute(ctx, arguments)
		if err != nil || b.Task == "" {
			return b.Output, err
		}
		for {
			p, err := poll.Event().Execute(ctx, b)
			if err != nil || p.Wait == 0 {
				return p.Output, err
			}
			if err := core.Sleep(ctx, p.Wait); err != nil {
				return actors.ToolOutput{}, err
			}
		}
	}
}

// begun returns the task that the result contains.
func (r *rawResult) begun() (begun, error) {
	if r.TaskID == "" {
		return begun{}, badResult(errors.New("the task has no ID"))
	}
	return begun{Task: r.TaskID, Poll: pollInterval(r.PollInterval), Began: time.Now()}, nil
}

// pollUnrecorded polls a task on a server that did not support tasks when the run recorded the
// server's list. It treats the task as a late answer. No record contains the task's ID, so if the
// call stops before the server reports how the task ended, the call is in doubt.
func (c *Client) pollUnrecorded(ctx context.Context, r *rawResult) (actors.ToolOutput, error) {
	s, err := c.acquire(ctx)
	if err != nil {
		return actors.ToolOutput{}, core.InDoubt(err)
	}
	can := abilitiesOf(s.client.InitializeResult())
	c.release(s, false)
	if !can.tasks {
		return actors.ToolOutput{}, badResult(errors.New("the server answered with a task, but did not announce tasks"))
	}
	b, err := r.begun()
	if err != nil {
		return actors.ToolOutput{}, err
	}
	p, err := c.poll(ctx, b, longestPoll) // must not sleep: a parked call would begin another task
	if failed := (*ServerError)(nil); err != nil && !errors.As(err, &failed) {
		err = core.InDoubt(err)
	}
	return p.Output, err
}

const (
	defaultPoll  = time.Second
	shortestPoll = 100 * time.Millisecond
	longestPoll  = time.Hour

	// parkAfter is the longest wait between polls for which the call stays in memory. A longer
	// wait is a sleep of the run, which may park it.
	parkAfter = 10 * time.Second
)

// pollInterval returns the polling interval that a server suggests, within limits.
func pollInterval(ms float64) time.Duration {
	if ms <= 0 || ms != ms {
		return defaultPoll
	}
	return min(max(time.Duration(min(ms, float64(longestPoll/time.Millisecond)))*time.Millisecond, shortestPoll), longestPoll)
}

// poll polls a task until the task has ended, or until the wait before the next poll exceeds the
// duration longest. The longer the task takes, the less often it polls: the wait grows to a tenth of
// the time that has passed. A resumed run repeats all recorded sleeps, so their number must stay
// small.
func (c *Client) poll(ctx context.Context, b begun, longest time.Duration) (polled, error) {
	interval, lastMessage := b.Poll, ""
	emit := live.Emitter(ctx)
	for {
		t, err := c.taskOf(ctx, b.Task)
		if err != nil {
			return polled{}, err
		}
		if t.StatusMessage != lastMessage && emit != nil {
			emit(live.Delta{Part: live.PartProgress, Text: t.StatusMessage})
		}
		lastMessage = t.StatusMessage
		switch t.Status {
		case taskWorking:
		case taskCompleted:
			r, err := readResult(t.Result)
			if err != nil {
				return polled{}, err
			}
			out, err := r.output(c.options.ForUsers)
			return polled{Output: out}, err
		default:
			return polled{}, c.endTask(ctx, b.Task, t)
		}
		if t.PollInterval > 0 {
			interval = pollInterval(t.PollInterval)
		}
		wait := max(interval, min(time.Since(b.Began)/10, 10*time.Minute))
		if wait > longest {
			return polled{Wait: wait}, nil
		}
		if err := pause(ctx, wait); err != nil {
			return polled{}, err
		}
	}
}

// pause waits for d without leaving the process.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// detailedTask is the result of tasks/get.
type detailedTask struct {
	task
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// taskOf returns the current state of a task.
func (c *Client) taskOf(ctx context.Context, id string) (*detailedTask, error) {
	raw, err := c.taskMethod(ctx, methodGetTask, id)
	if err != nil {
		return nil, err
	}
	t := new(detailedTask)
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, badResult(fmt.Errorf("task %s: %w", record.Truncate(id, 80), err))
	}
	return t, nil
}

// taskMethod makes a request about a task. Such a request may be repeated even if the server did
// not respond in time.
func (c *Client) taskMethod(ctx context.Context, method, id string) (json.RawMessage, error) {
	limited, cancel := c.withTimeout(ctx)
	defer cancel()
	raw, err := c.request(limited, id, func(ctx context.Context, s *session, token string) error {
		p := &taskParams{TaskID: id}
		p.Meta = sdk.Meta{"progressToken": token}
		_, err := sdk.CallCustomMethod[*taskParams, *taskResult](ctx, s.client, method, p)
		return err
	})
	if errors.Is(err, ErrLost) && ctx.Err() == nil {
		err = core.Retryable(err)
	}
	return raw, err
}

// endTask returns the error for a task that ended without a result or cannot continue.
func (c *Client) endTask(ctx context.Context, id string, t *detailedTask) error {
	switch t.Status {
	case taskFailed:
		failed := &ServerError{Message: "the task failed"}
		if t.Error != nil {
			failed = &ServerError{t.Error.Code, t.Error.Message}
		}
		return core.Permanent(failed)
	case taskCancelled:
		return core.Permanent(&ServerError{Message: "the task was cancelled" + afterColon(t.StatusMessage)})
	case taskInputRequired:
		_, err := c.taskMethod(ctx, methodCancelTask, id) // no person can provide the input
		return core.Permanent(errors.Join(errors.New("mcp: the task requires user input, which this client does not support"), err))
	}
	return badResult(fmt.Errorf("task status is %q, want working, completed, failed, cancelled or input_required", record.Truncate(t.Status, 80)))
}

// afterColon returns the message preceded by a colon, or "" if the message is empty.
func afterColon(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
