package streamer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Query selects runs from a [Source] and specifies their order. The zero Query selects all runs,
// beginning with the most recently updated.
type Query struct {
	Status     []string // only runs with one of these
	Tags       []string // only runs with all of these
	Program    string
	Version    string // version of the program
	Pipeline   string
	Parent     string    // the run from which the run was forked
	ErrorClass string    // class of the last error
	Text       string    // part of the ID, the description, an open question or the last error; case is ignored
	Asking     bool      // only runs with open questions
	Since      time.Time // only runs updated at this time or later
	Until      time.Time // only runs updated before this time

	// Sees reports whether the sender is allowed to see a run. If it is nil, all runs may be seen.
	Sees func(runID string) bool

	// Sort is "updated", "start", "end", "duration", "cost", "tokens" or "retries".
	// Defaults to "updated".
	Sort      string
	Ascending bool // the lowest value first

	After string // Next of the previous page, which must have the same order; empty for the first page
	Limit int    // the maximum number of runs; 0 means all
}

// A RunPage is one page of a list of runs.
type RunPage struct {
	Runs   []RunInfo
	Next   string         // the Query.After for the next page; empty on the last page
	Counts map[string]int // number of runs by status, on all pages and regardless of Query.Status
}

// total returns the number of runs, on all pages, that have one of the statuses. If statuses is
// empty, it counts all runs.
func (p *RunPage) total(statuses []string) (n int) {
	for status, runs := range p.Counts {
		if len(statuses) == 0 || slices.Contains(statuses, status) {
			n += runs
		}
	}
	return n
}

var sorts = []string{"updated", "start", "end", "duration", "cost", "tokens", "retries"}

// matches reports whether the query selects a run. It ignores Query.Status.
func (q *Query) matches(i *RunInfo) bool {
	switch {
	case q.Program != "" && q.Program != i.Program, q.Version != "" && q.Version != i.Version,
		q.Pipeline != "" && q.Pipeline != i.Pipeline, q.Parent != "" && q.Parent != i.ParentID,
		q.ErrorClass != "" && (i.LastError == nil || i.LastError.Class != q.ErrorClass),
		q.Asking && i.Asking == 0, !q.Since.IsZero() && i.Updated.Before(q.Since), !q.Until.IsZero() && !i.Updated.Before(q.Until),
		q.Sees != nil && !q.Sees(i.RunID):
		return false
	}
	for _, tag := range q.Tags {
		if !slices.Contains(i.Tags, tag) {
			return false
		}
	}
	return q.Text == "" || i.has(strings.ToLower(q.Text))
}

func (i *RunInfo) has(text string) bool {
	in := func(where string) bool { return strings.Contains(strings.ToLower(where), text) }
	return in(i.RunID) || in(i.Description) || i.LastError != nil && in(i.LastError.Message) ||
		slices.ContainsFunc(i.Questions, func(q QuestionState) bool { return in(q.Text) })
}

// value returns the value of a run by which the list is sorted.
func (q *Query) value(i *RunInfo) float64 {
	seconds := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixMicro())
	}
	switch q.Sort {
	case "start":
		return seconds(i.Created)
	case "end":
		if i.Status != statusCompleted && i.Status != statusFailed && i.Status != statusCancelled {
			return 0
		}
	case "duration":
		return float64(i.Updated.Sub(i.Created))
	case "cost":
		return i.Usage.Cost
	case "tokens":
		return float64(i.Usage.InputTokens + i.Usage.OutputTokens)
	case "retries":
		return float64(i.Retries)
	}
	return seconds(i.Updated)
}

func (q *Query) compare(a, b *RunInfo) int {
	by := cmp.Compare(q.value(b), q.value(a))
	if q.Ascending {
		by = -by
	}
	return cmp.Or(by, cmp.Compare(a.RunID, b.RunID))
}

// PageOf applies a query to the given runs and returns the page that it selects. It is for a
// [Source] that holds all runs in memory. If the query is not valid, the error is ErrInvalid.
func PageOf(runs []RunInfo, q Query) (RunPage, error) {
	if q.Sort != "" && !slices.Contains(sorts, q.Sort) {
		return RunPage{}, fmt.Errorf("%w: sort is %.50q: want one of %v", ErrInvalid, q.Sort, sorts)
	}
	page := RunPage{Runs: []RunInfo{}, Counts: make(map[string]int)}
	for i := range runs {
		if !q.matches(&runs[i]) {
			continue
		}
		page.Counts[runs[i].Status]++
		if len(q.Status) == 0 || slices.Contains(q.Status, runs[i].Status) {
			page.Runs = append(page.Runs, runs[i])
		}
	}
	slices.SortFunc(page.Runs, func(a, b RunInfo) int { return q.compare(&a, &b) })
	if q.After != "" {
		first, err := strconv.Atoi(q.After)
		if err != nil || first < 0 {
			return RunPage{}, fmt.Errorf("%w: after is %.50q: want the value of next in the previous page", ErrInvalid, q.After)
		}
		page.Runs = page.Runs[min(first, len(page.Runs)):]
	}
	if q.Limit > 0 && len(page.Runs) > q.Limit {
		first, _ := strconv.Atoi(cmp.Or(q.After, "0"))
		page.Runs, page.Next = page.Runs[:q.Limit], strconv.Itoa(first+q.Limit)
	}
	return page, nil
}

// queryParameters are the parameters of /api/runs and /api/questions.
var queryParameters = []string{
	"status", "tag", "program", "version", "pipeline", "parent", "class", "text", "asking", "since", "until", "sort", "order", "after", "limit",
}

var allStatuses = []string{
	"queued", statusRunning, statusPaused, statusInterrupted, statusCompleted, statusFailed, statusCancelled,
}

// queryOf reads a query from a request's URL.
func queryOf(req *http.Request, scope *Access) (q Query, err error) {
	values, err := parametersOf(req, queryParameters, "tag")
	if err != nil {
		return q, err
	}
	isEmpty := func(tag string) bool { return tag == "" } // an empty tag selects all runs, like any other empty filter
	q = Query{
		Tags: slices.DeleteFunc(values["tag"], isEmpty), Program: values.Get("program"), Version: values.Get("version"), Pipeline: values.Get("pipeline"),
		Parent: values.Get("parent"), ErrorClass: values.Get("class"), Text: values.Get("text"), Sees: scope.Runs,
		Sort: values.Get("sort"), After: values.Get("after"),
	}
	if status := values.Get("status"); status != "" {
		q.Status = strings.Split(status, ",")
	}
	for _, status := range q.Status {
		if !slices.Contains(allStatuses, status) {
			return q, fmt.Errorf("unknown status %.50q; want one of %v", status, allStatuses)
		}
	}
	if class := record.ClassUnknown; q.ErrorClass != "" && class.UnmarshalText([]byte(q.ErrorClass)) != nil {
		return q, fmt.Errorf("class is %.50q: want one of %s", q.ErrorClass, allowedNames(record.ClassUnknown, record.ClassBreaker))
	}
	if q.Sort != "" && !slices.Contains(sorts, q.Sort) {
		return q, fmt.Errorf("sort is %.50q: want one of %v", q.Sort, sorts)
	}
	order := values.Get("order")
	if q.Ascending = order == "asc"; order != "" && order != "asc" && order != "desc" {
		return q, fmt.Errorf("order is %.50q: want asc or desc", order)
	}
	if asking := values.Get("asking"); asking != "" {
		if q.Asking, err = strconv.ParseBool(asking); err != nil {
			return q, fmt.Errorf("asking is %.50q: want true or false", asking)
		}
	}
	if q.Limit, err = limitOf(req, defaultRuns, maxRuns); err != nil {
		return q, err
	}
	if err := errors.Join(timeOf(values, "since", &q.Since), timeOf(values, "until", &q.Until)); err != nil {
		return q, err
	}
	if !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return q, fmt.Errorf("since is %s and until is %s: want since to be before until", values.Get("since"), values.Get("until"))
	}
	return q, nil
}

func timeOf(values url.Values, name string, t *time.Time) (err error) {
	text := values.Get(name)
	if text == "" {
		return nil
	}
	if *t, err = time.Parse(time.RFC3339, text); err != nil {
		return fmt.Errorf("%s is %.50q: want a time such as 2026-01-02T15:04:05Z", name, text)
	}
	return nil
}

// list returns the page that the query selects, and the states of its runs.
func (h *Handler) list(ctx context.Context, q Query) (states []RunState, page RunPage, err error) {
	if h.source == nil {
		known := h.inMemory(nil)
		infos := make([]RunInfo, 0, len(known))
		for _, s := range known {
			infos = append(infos, s.info())
		}
		if page, err = PageOf(infos, q); err != nil {
			return nil, page, err
		}
		for i := range page.Runs {
			states = append(states, known[page.Runs[i].RunID])
		}
		return states, page, nil
	}
	reads := 0
	more, err := h.unlisted(ctx, q, &reads)
	if err != nil {
		return nil, page, err
	}
	q.Limit -= len(more.Runs)
	if page, err = h.source.List(ctx, q); err != nil {
		return nil, page, err
	}
	page.add(&more, &q)
	running := 0
	for i := range page.Runs {
		if info := &page.Runs[i]; (info.Status == statusRunning || info.isCancelled()) && running < maxRead {
			running++
			if info, err := h.source.Run(ctx, page.Runs[i].RunID); err == nil {
				page.Runs[i].Stopping = info.Stopping
			}
		}
		s := h.stateOf(ctx, &page.Runs[i], &reads)
		h.markAnswered(ctx, &s)
		states = append(states, s)
	}
	return states, page, nil
}

// maxRead is the maximum number of runs in a list whose records are read to show what the runs are
// doing. These are runs that have not ended, and runs whose first records were not published. The
// states of all other runs are partial: they contain what is known without reading records. maxRead
// is also the maximum number of running runs in a list that are looked up to show who has asked
// them to stop.
const maxRead = 50

// stateOf returns the state of a stored run.
func (h *Handler) stateOf(ctx context.Context, info *RunInfo, reads *int) RunState {
	r := h.runs.find(info.RunID)
	var s RunState
	if r != nil {
		s = r.state(info)
	}
	isActive := info.Status == statusRunning || s.LastSeq > 0 // some of its records were published
	if isActive && (r == nil || s.Partial || s.LastSeq < info.LastSeq) && *reads < maxRead {
		*reads++
		r = h.runs.get(info.RunID, false)
		_ = r.readMissing(ctx, h.source, info.LastSeq) // one unreadable run must not hide the others
		s = r.state(info)
	}
	if s.LastSeq > 0 && (!s.Partial && s.LastSeq >= info.LastSeq || s.LastSeq > info.LastSeq) {
		s.adopt(*info)
		return s
	}
	return partialState(info)
}

// partialState returns what is known about a run without reading its records.
func partialState(info *RunInfo) RunState {
	s := RunState{RunInfo: *info, Usage: info.Usage, Partial: true, Questions: info.Questions, LastError: info.LastError}
	s.Calls = Calls{Started: info.Calls, Failed: info.Failed, Asking: info.Asking, Retries: info.Retries}
	return s
}

// info returns what a query needs to know about a run in memory.
func (s *RunState) info() RunInfo {
	i := s.RunInfo
	i.Usage, i.Retries, i.Asking, i.Questions, i.LastError = s.Usage, s.Calls.Retries, len(s.Questions), s.Questions, s.LastError
	return i
}

// inMemory returns the states of the runs in memory, by their IDs. If isWanted is not
// nil, inMemory returns only the runs for which isWanted returns true.
func (h *Handler) inMemory(isWanted func(*run) bool) map[string]RunState {
	known := make(map[string]RunState)
	for _, r := range h.runs.all() {
		if isWanted != nil && !isWanted(r) {
			continue
		}
		if s := r.state(new(RunInfo)); s.LastSeq > 0 {
			known[r.id] = s
		}
	}
	return known
}

// unlisted returns a page of the runs that the source does not list: runs that were published but
// are not in the source, such as those of a program without a store. If the query asks for runs
// with open questions, the page also includes runs that have asked since they were opened. Only the
// first page of a list contains such runs. At least one place on it is left for a run from the
// source, because the next page continues after that run.
func (h *Handler) unlisted(ctx context.Context, q Query, reads *int) (RunPage, error) {
	known := h.inMemory(func(r *run) bool { return !h.isStored(ctx, r) })
	infos := make([]RunInfo, 0, len(known))
	for _, s := range known {
		infos = append(infos, s.info())
	}
	if q.Asking {
		asking, err := h.askingSinceOpened(ctx, q, reads)
		if err != nil {
			return RunPage{}, err
		}
		infos = append(infos, asking...)
	}
	most, after := q.Limit-1, q.After
	q.Limit, q.After = 0, ""
	page, err := PageOf(infos, q)
	if after != "" {
		most = 0
	}
	page.Runs = page.Runs[:min(len(page.Runs), most)]
	return page, err
}

// askingSinceOpened returns the running runs that may have asked questions since they were opened,
// with the questions in their records. The source knows only the questions that were open when a
// run was last closed.
func (h *Handler) askingSinceOpened(ctx context.Context, q Query, reads *int) (asking []RunInfo, err error) {
	if len(q.Status) > 0 && !slices.Contains(q.Status, statusRunning) {
		return nil, nil
	}
	q.Status, q.Asking, q.After, q.Limit = []string{statusRunning}, false, "", maxRuns
	q.Text, q.ErrorClass = "", "" // the caller compares these with the records
	page, err := h.source.List(ctx, q)
	for _, info := range page.Runs {
		if info.Asking > 0 {
			continue
		}
		s := h.stateOf(ctx, &info, reads)
		info.Asking, info.Questions, info.LastError = len(s.Questions), s.Questions, s.LastError
		asking = append(asking, info)
	}
	return asking, err
}

// add adds the runs and counts of another page to p.
func (p *RunPage) add(more *RunPage, q *Query) {
	if len(more.Counts) > 0 && p.Counts == nil {
		p.Counts = make(map[string]int)
	}
	for status, n := range more.Counts {
		p.Counts[status] += n
	}
	if len(more.Runs) > 0 {
		p.Runs = append(p.Runs, more.Runs...)
		slices.SortStableFunc(p.Runs, func(a, b RunInfo) int { return q.compare(&a, &b) })
	}
}

// isStored reports whether the source contains a run. If the source does not contain the run when
// the run's first record is published, it never will.
func (h *Handler) isStored(ctx context.Context, r *run) bool {
	if found := r.stored.Load(); found != 0 {
		return found > 0
	}
	switch _, err := h.source.Run(ctx, r.id); {
	case err == nil:
		r.stored.Store(1)
	case errors.Is(err, ErrNotFound):
		r.stored.Store(-1)
		return false
	}
	return true
}

// OpenQuestions holds open questions of several runs. It is the body of /api/questions.
type OpenQuestions struct {
	Now       time.Time      `json:"now"`
	Questions []OpenQuestion `json:"questions"`

	// Asking is the number of runs with open questions, on all pages.
	Asking int         `json:"asking"`
	Next   string      `json:"next,omitempty"` // the parameter "after" of the next page; empty on the last page
	Can    Permissions `json:"can"`
}

// An OpenQuestion is a question with the run that asks it.
type OpenQuestion struct {
	QuestionState

	RunID       string `json:"run_id"`
	Description string `json:"description,omitempty"`
	Program     string `json:"program,omitempty"`
	Pipeline    string `json:"pipeline,omitempty"`
}

// serveQuestions sends the open questions of a page of runs. Unlike the list of runs, it sends all
// that the runs' states contain about a question, such as the schema of its answer.
func (h *Handler) serveQuestions(w http.ResponseWriter, req *http.Request, scope *Access) {
	q, err := queryOf(req, scope)
	if err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	q.Asking = true
	states, page, err := h.list(req.Context(), q)
	if err != nil {
		h.refuseError(w, err, "")
		return
	}
	body := OpenQuestions{Now: time.Now().UTC(), Questions: []OpenQuestion{}, Next: page.Next, Can: h.permissions(scope)}
	body.Asking = page.total(q.Status)
	reads := 0
	for i := range states {
		s := &states[i]
		for _, question := range h.questionsOf(req.Context(), s, &reads) {
			body.Questions = append(body.Questions, OpenQuestion{question, s.RunID, s.Description, s.Program, s.Pipeline})
		}
	}
	h.sendJSON(w, body)
}

// questionsOf returns all open questions of a run. A RunInfo contains only the first ones, without
// their schemas. If s contains no more than the RunInfo, questionsOf reads the run's records and
// increments reads, unless reads has reached maxRead.
func (h *Handler) questionsOf(ctx context.Context, s *RunState, reads *int) []QuestionState {
	if !s.Partial && s.Calls.Asking <= len(s.Questions) || h.source == nil || *reads == maxRead {
		return s.Questions
	}
	*reads++
	r := h.runs.get(s.RunID, false)
	if err := r.readMissing(ctx, h.source, s.LastSeq); err != nil {
		return s.Questions
	}
	whole := r.state(&s.RunInfo)
	whole.Stopping = s.Stopping
	if whole.LastSeq < s.LastSeq { // the source does not have the newest records, at least not yet
		return s.Questions
	}
	h.markAnswered(ctx, &whole)
	return whole.Questions
}
