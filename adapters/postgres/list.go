package postgres

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// List implements [snapshot.Reader]. The database sorts and counts.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if !f.IsSorted() || f.Count && !isExact(&f) {
		return s.Store.List(ctx, f)
	}
	page, err := s.db.sortedPage(ctx, f)
	if err == nil && f.Count {
		page.Counts, err = storekit.Retry(ctx, func() (map[snapshot.Status]int, error) { return s.db.Count(ctx, f) })
	}
	return page, err
}

// isExact reports whether the database query selects exactly the runs that the filter selects.
func isExact(f *snapshot.Filter) bool {
	of := strings.Join(append([]string{f.Pipeline, f.Program, f.Version, f.Parent, f.ErrorClass, f.Text}, f.Tags...), "")
	return f.Only == nil && storableText(of) == of && !strings.ContainsAny(of, separator+"\uFFFD")
}

// List implements [storekit.Heads]. For a program or a pipeline it queries each status separately,
// because the indexes contain the runs of each status in the order of lists.
func (d *database) List(ctx context.Context, f snapshot.Filter, after storekit.Place, n int) ([]storekit.Head, error) {
	f.Sort, f.Ascending = snapshot.SortUpdated, false // the order of Heads.List
	isAfter := after != (storekit.Place{})
	if f.Text != "" || len(f.Tags) > 0 || len(f.Status) == 0 && f.Program == "" && f.Pipeline == "" {
		return d.next(ctx, &f, after.Updated.UnixNano(), after.RunID, isAfter, n)
	}
	q := &listing{}
	if isAfter {
		at := q.arg(after.Updated.UnixNano())
		q.and("r.updated <= "+at, "(r.updated < "+at+" or r.id > "+q.arg(after.RunID)+")")
	}
	q.filter(&f)
	order := ` order by r.updated desc, r.id limit ` + strconv.Itoa(n)
	return query(ctx, d, scanHead, `select `+headColumns+` from unnest(`+q.arg(statuses(&f))+`::text[]) s cross join lateral (
		select * from reprise.runs r where r.status = s and `+q.where()+order+`) r`+order, q.args...)
}

var allStatuses = []snapshot.Status{
	snapshot.StatusQueued, snapshot.StatusRunning, snapshot.StatusPaused, snapshot.StatusInterrupted,
	snapshot.StatusCompleted, snapshot.StatusFailed, snapshot.StatusCancelled,
}

// statuses returns the stored statuses that the filter selects. A run whose process crashed is stored
// as running, but counts as interrupted.
func statuses(f *snapshot.Filter) []string {
	selected := f.Status
	if len(selected) == 0 {
		selected = allStatuses
	}
	var all []string
	for _, s := range selected {
		all = append(all, string(s))
		if s == snapshot.StatusInterrupted {
			all = append(all, string(snapshot.StatusRunning))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A listing is a statement that is being built.
type listing struct {
	args       []any
	conditions []string
}

func (q *listing) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

func (q *listing) and(conditions ...string) { q.conditions = append(q.conditions, conditions...) }

func (q *listing) where() string { return strings.Join(append(q.conditions, "true"), " and ") }

func (q *listing) status(f *snapshot.Filter) {
	if len(f.Status) > 0 {
		q.and("r.status = any(" + q.arg(statuses(f)) + "::text[])")
	}
}

// filter adds the filter's conditions, except the one for the status. Times are compared as integers,
// since timestamps lack nanoseconds.
func (q *listing) filter(f *snapshot.Filter) {
	for column, value := range map[string]string{
		"program": f.Program, "program_version": f.Version, "pipeline": f.Pipeline, "parent": f.Parent, "error_class": f.ErrorClass,
	} {
		if value != "" { // the indexes contain only runs for which the value is set
			q.and("r."+column+" <> ''", "r."+column+" = "+q.arg(storableText(value)))
		}
	}
	if len(f.Tags) > 0 {
		q.and("r.tags <> '{}'", "r.tags @> "+q.arg(array(f.Tags))+"::text[]")
	}
	if f.Asking {
		q.and("r.asking")
	}
	if !f.Since.IsZero() {
		q.and("r.updated >= " + q.arg(f.Since.UnixNano()))
	}
	if !f.Until.IsZero() {
		q.and("r.updated < " + q.arg(f.Until.UnixNano()))
	}
	if f.Text != "" {
		q.and("r.uid in (select w.uid from reprise.words w where w.words like " + q.arg(pattern(f)) + ")")
	}
}

// pattern returns a pattern that matches words containing the filter's text.
func pattern(f *snapshot.Filter) string {
	escaped := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, separator, "\uFFFD").Replace(storableText(strings.ToLower(f.Text)))
	return "%" + escaped + "%"
}

// sortedBy maps the sort keys of lists to the columns by which they sort.
var sortedBy = map[snapshot.Sort]string{
	snapshot.SortUpdated: "r.updated", snapshot.SortCreated: "r.created", snapshot.SortDuration: "(r.updated - r.created)",
	snapshot.SortEnded: "f.ended", snapshot.SortCost: "f.cost", snapshot.SortTokens: "f.tokens", snapshot.SortRetries: "f.retries",
}

// sortedPage returns a page of a list in an order other than the default.
func (d *database) sortedPage(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	p, err := storekit.NewPicker(f)
	if err != nil {
		return snapshot.Page{}, err
	}
	n := 1000
	if f.Limit > 0 {
		n = min(n, f.Limit+1)
	}
	value, runID, isAfter := p.After()
	for {
		heads, err := storekit.Retry(ctx, func() ([]storekit.Head, error) { return d.next(ctx, &f, value, runID, isAfter, n) })
		if err != nil {
			return snapshot.Page{}, err
		}
		for i := range heads {
			info := storekit.ReportedInfo(heads[i])
			p.Add(info)
			value, runID, isAfter = f.Sort.Value(&info), info.RunID, true
		}
		if len(heads) < n || p.IsFull() {
			return p.Page(), nil
		}
	}
}

// maxSorted is the largest number of selected runs that are all read and then sorted. If more runs
// are selected, reading in index order soon finds enough of them.
const maxSorted = 5000

// candidates returns all runs that a filter may select, and reports whether there are at most
// maxSorted of them. If there are more, the result is incomplete.
func (d *database) candidates(ctx context.Context, f *snapshot.Filter) (uids []string, areFew bool, err error) {
	limit := ` limit ` + strconv.Itoa(d.maxSorted+1)
	if f.Text != "" {
		uids, err = query(ctx, d, pgx.RowTo[string], `select w.uid from reprise.words w where w.words like $1`+limit, pattern(f))
		if err != nil || len(uids) <= d.maxSorted {
			return uids, true, err
		}
	}
	q, rest := &listing{}, *f
	rest.Text = ""
	q.status(&rest)
	if q.filter(&rest); len(q.conditions) == 0 {
		return nil, false, nil
	}
	uids, err = query(ctx, d, pgx.RowTo[string], `select r.uid from reprise.runs r where `+q.where()+limit, q.args...)
	return uids, len(uids) <= d.maxSorted, err
}

// An order specifies how a list is sorted, and where the next page begins.
type order struct {
	table, alias     string // the table whose index has this order, and its alias
	by               string
	ascending        bool
	programCondition string // restricts the rows of the table to a program, which the index also contains
	value            int64  // the value of the last run on the previous page
	runID            string
	isAfter          bool // there is a previous page
}

func orderOf(f *snapshot.Filter, value int64, runID string, isAfter bool) order {
	o := order{"reprise.runs", "r", sortedBy[f.Sort], f.Ascending, "", value, runID, isAfter}
	if strings.HasPrefix(o.by, "f.") {
		o.table, o.alias = "reprise.figures", "f"
	}
	return o
}

func (o *order) direction() string {
	if o.ascending {
		return ""
	}
	return " desc"
}

// next returns up to n runs in the filter's order. If isAfter is set, they are the runs after the one
// with the given value and ID, otherwise the first runs.
func (d *database) next(ctx context.Context, f *snapshot.Filter, value int64, runID string, isAfter bool, n int) ([]storekit.Head, error) {
	uids, areFew, err := d.candidates(ctx, f)
	if err != nil {
		return nil, err
	}
	q, o := &listing{}, orderOf(f, value, runID, isAfter)
	q.status(f)
	q.filter(f)
	limit := ` limit ` + strconv.Itoa(n)
	from := ""
	if areFew {
		from = q.among(&o, uids)
	} else {
		if o.alias == "f" && f.Program != "" {
			o.programCondition = ` and f.program = ` + q.arg(storableText(f.Program))
		}
		from = q.inOrder(&o, limit)
	}
	return query(ctx, d, scanHead, `select `+headColumns+` from `+from+` order by r.by`+o.direction()+`, r.id`+limit, q.args...)
}

// among selects those candidates that the filter selects and that come after the previous page.
func (q *listing) among(o *order, uids []string) string {
	figures := ``
	if o.alias == "f" {
		figures = ` cross join lateral (select * from reprise.figures where uid = r.uid offset 0) f`
	}
	from := `(select r.*, ` + o.by + ` as by from reprise.runs r` + figures + ` where r.uid = any(` + q.arg(uids) + `::text[]) and ` + q.where() + `) r`
	if !o.isAfter {
		return from
	}
	at, beyond := q.arg(o.value), ` < `
	if o.ascending {
		beyond = ` > `
	}
	return from + ` where r.by` + beyond + at + ` or r.by = ` + at + ` and r.id > ` + q.arg(o.runID)
}

// inOrder reads runs in the order of an index until the page is full. Many runs may share the
// lowest value. In ascending order, these runs are read separately, because the index contains them
// in the opposite order.
func (q *listing) inOrder(o *order, limit string) string {
	id := o.alias + ".id"
	if o.ascending {
		lowest := `(select min(` + o.by + `) from ` + o.table + ` ` + o.alias + `)`
		if o.isAfter {
			lowest = q.arg(o.value) + `::bigint`
		}
		return `(` + q.scan(o, o.by+` = `+lowest+` and `+id+` > `+q.arg(o.runID), id, limit) + ` union all ` + q.scan(o, o.by+` > `+lowest, o.by+`, `+id, limit) + `) r`
	}
	place := `true`
	if o.isAfter {
		at := q.arg(o.value)
		place = o.by + ` <= ` + at + ` and (` + o.by + ` < ` + at + ` or ` + id + ` > ` + q.arg(o.runID) + `)`
	}
	return q.scan(o, place, o.by+` desc, `+id, limit) + ` r`
}

// scan reads a table in an order, and skips the rows that the filter does not select. The database
// executes a subquery with an offset as written, regardless of its statistics, so it reads nothing
// else.
func (q *listing) scan(o *order, place, by, limit string) string {
	order := ` as by from ` + o.table + ` ` + o.alias + ` where ` + place + o.programCondition + ` order by ` + by + ` offset 0)`
	if o.alias == "f" { // the inner query reads only the index; the join then looks up each run
		return `(select r.*, f.by from (select f.id, ` + o.by + order + ` f cross join lateral (select * from reprise.runs r where r.id = f.id and ` + q.where() + ` offset 0) r` + limit + `)`
	}
	in := `(select r.*, ` + o.by + order
	return `(select * from ` + in + ` r where ` + q.where() + limit + `)`
}

// Count implements [storekit.Heads]. It counts each status separately, using the smallest index
// that contains the runs with that status. Only a few runs are stored as running.
func (d *database) Count(ctx context.Context, f snapshot.Filter) (map[snapshot.Status]int, error) {
	if !isExact(&f) {
		return nil, nil
	}
	q := &listing{}
	q.filter(&f)
	counted := `select case when ` + isOpen + ` then 'running' else 'interrupted' end, count(*) from reprise.runs r where ` + q.where() + ` and r.status = 'running' group by 1`
	for _, status := range allStatuses {
		if status != snapshot.StatusRunning {
			counted += ` union all select '` + string(status) + `', count(*) from reprise.runs r where ` + q.where() + ` and r.status = '` + string(status) + `' having count(*) > 0`
		}
	}
	type count struct {
		Status string
		Runs   int
	}
	found, err := query(ctx, d, pgx.RowToStructByPos[count], counted, q.args...)
	counts := make(map[snapshot.Status]int)
	for _, c := range found {
		counts[snapshot.Status(c.Status)] += c.Runs
	}
	return counts, err
}
