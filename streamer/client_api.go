package streamer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// address is the URL of a path of the handler.
func (c *Client) address(path ...string) (*url.URL, error) {
	u, err := url.Parse(c.URL)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		err = errors.New("a URL begins with http:// or https:// and a host")
	}
	if err != nil {
		return nil, fmt.Errorf("streamer: Client.URL is %q: %w", c.URL, err)
	}
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	return u.JoinPath(path...), nil
}

// events is the URL of the stream.
func (c *Client) events() (string, error) {
	u, err := c.address("events")
	if err != nil {
		return "", err
	}
	types, statuses := c.Types, c.Statuses
	if c.filtersEnd() { // the end is sent too, and looked at here
		if len(types) > 0 {
			types = append(slices.Clip(types), record.KindRun)
		}
		if len(statuses) > 0 {
			statuses = append(slices.Clip(statuses), record.StatusCompleted, record.StatusFailed, record.StatusCancelled)
		}
	}
	query := u.Query()
	if c.Run != "" {
		query.Set("run", c.Run)
	}
	if c.Deltas {
		query.Set("deltas", "true")
	}
	if names := join(types); names != "" {
		query.Set("type", names)
	}
	if names := join(statuses); names != "" {
		query.Set("status", names)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

func join[T fmt.Stringer](values []T) string {
	var names []string
	for _, v := range values {
		if !slices.Contains(names, v.String()) {
			names = append(names, v.String())
		}
	}
	return strings.Join(names, ",")
}

// filtersEnd reports whether events are asked for that the caller did not pick.
func (c *Client) filtersEnd() bool {
	return c.UntilEnd && c.Run != "" && (len(c.Types) > 0 || len(c.Statuses) > 0)
}

// picks reports whether the caller picked the event.
func (c *Client) picks(e Event) bool {
	if !c.filtersEnd() || !e.IsRecord() {
		return true
	}
	var rec struct {
		Kind   record.Kind   `json:"event_type"`
		Status record.Status `json:"execution_status"`
	}
	if e.Decode(&rec) != nil {
		return true
	}
	return (len(c.Types) == 0 || slices.Contains(c.Types, rec.Kind)) &&
		(len(c.Statuses) == 0 || slices.Contains(c.Statuses, rec.Status))
}

// ends reports whether the caller wants nothing after the event.
func (c *Client) ends(e Event) bool {
	return c.UntilEnd && c.Run != "" && (e.Name == "run_completed" || e.Name == "run_failed" || e.Name == "run_cancelled")
}

func (c *Client) http() *http.Client {
	if c.HTTPClient == nil {
		return http.DefaultClient
	}
	return c.HTTPClient
}

// Runs returns how the runs stand, the last updated first: at most limit, or
// 100 if that is 0. After its cursor the events go on.
func (c *Client) Runs(ctx context.Context, limit int) (RunList, error) {
	u, err := c.address("api", "runs")
	if err != nil {
		return RunList{}, err
	}
	if limit != 0 {
		query := u.Query()
		query.Set("limit", strconv.Itoa(limit))
		u.RawQuery = query.Encode()
	}
	var list RunList
	err = c.do(ctx, http.MethodGet, u, nil, &list)
	return list, err
}

// State returns how one run stands, and the cursor after which its events go
// on.
func (c *Client) State(ctx context.Context, runID string) (state RunState, cursor string, err error) {
	u, err := c.address("api", "runs", runID)
	if err != nil {
		return RunState{}, "", err
	}
	query := u.Query()
	query.Set("limit", "1")
	u.RawQuery = query.Encode()
	var body runBody
	err = c.do(ctx, http.MethodGet, u, nil, &body)
	return body.Run, body.Cursor, err
}

// Answer answers a question of a run. By is that of [Client.Interrupt], and the
// value is encoded as JSON. An answer that cannot be given now is ErrConflict, a
// question that does not exist ErrNotFound.
func (c *Client) Answer(ctx context.Context, runID, questionID, by string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("streamer: the answer: %w", err)
	}
	return c.post(ctx, runID, "answer", answerBody{questionID, data, by})
}

// Interrupt asks for a run to be interrupted. By says who asks, and message why;
// both may be empty. A server that knows who sends the request records that name,
// and refuses another. A run that is not going on is ErrConflict.
func (c *Client) Interrupt(ctx context.Context, runID, by, message string) error {
	return c.post(ctx, runID, "interrupt", stopBody{by, message})
}

// Cancel asks for a run to be ended for good, whether or not it is going on. By and
// message are those of [Client.Interrupt]. A run that has completed or failed is
// ErrConflict.
func (c *Client) Cancel(ctx context.Context, runID, by, message string) error {
	return c.post(ctx, runID, "cancel", stopBody{by, message})
}

// Programs returns the names of what can be started, where the server has a
// [Starter].
func (c *Client) Programs(ctx context.Context) ([]string, error) {
	u, err := c.address("api", "programs")
	if err != nil {
		return nil, err
	}
	var body programs
	err = c.do(ctx, http.MethodGet, u, nil, &body)
	return body.Programs, err
}

// Start starts a run, and returns its ID and status. With a RunID, starting it
// again with the same program and input finds the run that was started before;
// without one, a Start whose answer got lost may have started a run. The input
// is JSON. A program that is not there is ErrNotFound, an input that does not fit
// it ErrInvalid, a RunID that another run has ErrConflict.
func (c *Client) Start(ctx context.Context, s Start) (runID, status string, err error) {
	u, err := c.address("api", "runs")
	if err != nil {
		return "", "", err
	}
	var body started
	err = c.postTo(ctx, u, s, &body)
	return body.RunID, body.Status, err
}

// Resume has a run go on that was interrupted, where the server has a [Starter].
func (c *Client) Resume(ctx context.Context, runID string) error {
	return c.post(ctx, runID, "resume", struct{}{})
}

// Result returns what a run has come to. One that goes on or waits is
// ErrConflict.
func (c *Client) Result(ctx context.Context, runID string) (Result, error) {
	u, err := c.address("api", "runs", runID, "result")
	if err != nil {
		return Result{}, err
	}
	var result Result
	err = c.do(ctx, http.MethodGet, u, nil, &result)
	return result, err
}

func (c *Client) post(ctx context.Context, runID, action string, body any) error {
	u, err := c.address("api", "runs", runID, action)
	if err != nil {
		return err
	}
	return c.postTo(ctx, u, body, nil)
}

func (c *Client) postTo(ctx context.Context, u *url.URL, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("streamer: %w", err)
	}
	return c.do(ctx, http.MethodPost, u, data, into)
}

// do sends a request, once, and decodes the answer.
func (c *Client) do(ctx context.Context, method string, u *url.URL, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("streamer: %w", err)
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http().Do(req)
	if err != nil {
		return fmt.Errorf("streamer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return refused(resp)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("streamer: %s sends what is not the JSON of a streamer.Handler: %w", u, err)
	}
	return nil
}

func refused(resp *http.Response) *StatusError {
	return &StatusError{resp.StatusCode, messageOf(resp.Body)}
}

// Is matches the error that a [Control] returned at the server.
func (e *StatusError) Is(target error) bool {
	return target == ErrNotFound && e.Code == http.StatusNotFound || target == ErrConflict && e.Code == http.StatusConflict ||
		target == ErrInvalid && (e.Code == http.StatusBadRequest || e.Code == http.StatusRequestEntityTooLarge) || target == ErrUnauthenticated && e.Code == http.StatusUnauthorized
}
