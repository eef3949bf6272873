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

// address returns the URL of a path below the handler's URL.
func (c *Client) address(path ...string) (*url.URL, error) {
	u, err := url.Parse(c.URL)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		err = errors.New("want http:// or https://, followed by a host")
	}
	if err != nil {
		return nil, fmt.Errorf("streamer: Client.URL is %q: %w", c.URL, err)
	}
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	return u.JoinPath(path...), nil
}

// events returns the stream's URL.
func (c *Client) events() (string, error) {
	u, err := c.address("events")
	if err != nil {
		return "", err
	}
	types, statuses := c.Types, c.Statuses
	if c.filtersEnd() { // the events that end the run are also requested, and picks removes them
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

// filtersEnd reports whether the client requests events that the caller did not select.
func (c *Client) filtersEnd() bool {
	return c.UntilEnd && c.Run != "" && (len(c.Types) > 0 || len(c.Statuses) > 0)
}

// picks reports whether the caller selected the event.
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

// ends reports whether the event is the last one that the caller wants.
func (c *Client) ends(e Event) bool {
	return c.UntilEnd && c.Run != "" && (e.Name == "run_completed" || e.Name == "run_failed" || e.Name == "run_cancelled")
}

func (c *Client) http() *http.Client {
	if c.HTTPClient == nil {
		return http.DefaultClient
	}
	return c.HTTPClient
}

// Runs returns the states of the runs, most recently updated first. It returns at most limit of
// them, or 100 if limit is 0. Events continue after the list's cursor.
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

// State returns the state of one run and the cursor from which to continue reading its events.
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

// Answer answers a question of a run. by is the person who answers, as in [Client.Interrupt]. The
// value is encoded as JSON. If the question cannot be answered now, the error is ErrConflict; if
// the question does not exist, it is ErrNotFound.
func (c *Client) Answer(ctx context.Context, runID, questionID, by string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("streamer: encode the answer: %w", err)
	}
	return c.post(ctx, runID, "answer", answerBody{questionID, data, by})
}

// Signal sends a signal to a run. s.By is the person who sends it, as in [Client.Interrupt]. If the
// run has ended, the error is ErrConflict; if too many signals are waiting, it is ErrTooMany.
func (c *Client) Signal(ctx context.Context, runID string, s Signal) error {
	return c.post(ctx, runID, "signal", s)
}

// Values returns the values that a run exposes, by key.
func (c *Client) Values(ctx context.Context, runID string) (map[string]json.RawMessage, error) {
	u, err := c.address("api", "runs", runID, "values")
	if err != nil {
		return nil, err
	}
	var body valuesBody
	err = c.do(ctx, http.MethodGet, u, nil, &body)
	return body.Values, err
}

// Interrupt asks the server to interrupt a run. stop.By is the person who interrupts the run, and
// stop.Message gives the reason. If the server knows the sender's name, it records that name, and
// refuses any other name in stop.By. If the run is not running, the error is ErrConflict. Interrupt
// may return before the run has stopped; until then, RunInfo.Stopping holds the request.
func (c *Client) Interrupt(ctx context.Context, runID string, stop Stop) error {
	return c.post(ctx, runID, "interrupt", stopBody{stop.By, stop.Message})
}

// Cancel asks the server to end a run for good, whether or not it is running. Cancel uses stop in the
// same way as [Client.Interrupt] and may also return before the run has stopped. If the run has
// completed or failed, the error is ErrConflict.
func (c *Client) Cancel(ctx context.Context, runID string, stop Stop) error {
	return c.post(ctx, runID, "cancel", stopBody{stop.By, stop.Message})
}

// Programs returns the programs that can be started, if the server has a
// [Starter].
func (c *Client) Programs(ctx context.Context) ([]Program, error) {
	u, err := c.address("api", "programs")
	if err != nil {
		return nil, err
	}
	var body programsBody
	err = c.do(ctx, http.MethodGet, u, nil, &body)
	return body.Programs, err
}

// Start starts a run and returns its ID and status. If s has a RunID, a second Start with the same
// program and input returns the run that the first one started. Without a RunID, a Start whose
// response was lost may have started a run. The input is JSON. The error is ErrNotFound if the
// program does not exist, ErrInvalid if the input does not fit the program, ErrConflict if another
// run has the RunID, and ErrTooMany or ErrUnavailable if a later Start may succeed.
func (c *Client) Start(ctx context.Context, s Start) (runID, status string, err error) {
	u, err := c.address("api", "runs")
	if err != nil {
		return "", "", err
	}
	var body startedBody
	err = c.postTo(ctx, u, s, &body)
	return body.RunID, body.Status, err
}

// Resume continues an interrupted run, if the server has a [Continuer]. If the run was not
// interrupted, the error is ErrConflict.
func (c *Client) Resume(ctx context.Context, runID string) error {
	return c.post(ctx, runID, "resume", struct{}{})
}

// Retry continues a failed run and repeats the calls that failed for good, if the server
// has a [Continuer]. If the run has not failed, the error is ErrConflict.
func (c *Client) Retry(ctx context.Context, runID string) error {
	return c.post(ctx, runID, "retry", struct{}{})
}

// Fork begins a new run from a call of another run, if the server has a [Forker]. If calls with
// effects need a decision, the error is ErrConflict and lists them.
func (c *Client) Fork(ctx context.Context, runID string, f Fork) error {
	return c.post(ctx, runID, "fork", f)
}

// ResumeAll resumes the selected runs and returns the result for each. Selection.Sees is not sent,
// because the server knows which runs the sender may see.
func (c *Client) ResumeAll(ctx context.Context, choice Selection) ([]SelectedRun, error) {
	return c.continueAll(ctx, "resume", choice)
}

// RetryAll is like [Client.ResumeAll], but retries failed runs.
func (c *Client) RetryAll(ctx context.Context, choice Selection) ([]SelectedRun, error) {
	return c.continueAll(ctx, "retry", choice)
}

func (c *Client) continueAll(ctx context.Context, action string, choice Selection) ([]SelectedRun, error) {
	u, err := c.address("api", "runs", action)
	if err != nil {
		return nil, err
	}
	var body continuedBody
	err = c.postTo(ctx, u, choice, &body)
	return body.Runs, err
}

// Result returns the result of a run. If the run has not ended, the error is ErrConflict.
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

// do sends a request once and decodes the response.
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
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
	default:
		return statusError(resp)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("streamer: the response from %s is not the JSON that a streamer.Handler sends: %w", u, err)
	}
	return nil
}

func statusError(resp *http.Response) *StatusError {
	return &StatusError{resp.StatusCode, messageOf(resp.Body)}
}

// Is reports whether target is this package's error for the status code, such as ErrNotFound for 404.
func (e *StatusError) Is(target error) bool {
	switch e.Code {
	case http.StatusNotFound:
		return target == ErrNotFound
	case http.StatusConflict:
		return target == ErrConflict
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return target == ErrInvalid
	case http.StatusUnauthorized:
		return target == ErrUnauthenticated
	case http.StatusTooManyRequests:
		return target == ErrTooMany
	case http.StatusServiceUnavailable:
		return target == ErrUnavailable
	}
	return false
}
