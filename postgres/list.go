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

// List implements [snapshot.Reader]. It sorts and counts in the database.
func (s *Store) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	if f.Count && !isExact(&f) {
		return s.Store.List(ctx, f)
	}
	all, list := f, s.Store.List
	if f.IsSorted() {
		list = s.db.sorted
	}
	f.Count = false
	page, err := list(ctx, f)
	if err == nil && all.Count {
		page.Counts, err = storekit.Again(ctx, func() (map[snapshot.Status]int, error) { return s.db.count(ctx, &all) })
	}
	return page, err
}

// isExact reports whether the database selects just what a filter does, and not more.
func isExact(f *snapshot.Filter) bool {
	of := strings.Join(append([]string{f.Pipeline, f.Program, f.Version, f.Parent, f.ErrorClass, f.Text}, f.Tags...), "")
	return f.Only == nil && text(of) == of && !strings.ContainsAny(of, between+"\uFFFD")
}

// List implements [storekit.Heads]. For a program or a pipeline each status is looked up by
// itself: the indexes have the runs of one in the order of lists.
func (d *database) List(ctx context.Context, f snapshot.Filter, after storekit.Place, n int) ([]storekit.Head, error) {
	q := &listing{}
	if after != (storekit.Place{}) {
		at := q.arg(after.Updated.UnixNano())
		q.and("r.updated <= "+at, "(r.updated < "+at+" or r.id > "+q.arg(after.RunID)+")")
	}
	order := ` order by r.updated desc, r.id limit ` + strconv.Itoa(n)
	isByStatus := f.Text == "" && len(f.Tags) == 0 && (len(f.Status) > 0 || f.Program != "" || f.Pipeline != "")
	if !isByStatus {
		q.status(&f)
	}
	q.filter(&f)
	statement := `select ` + head + ` from reprise.runs r where ` + q.where() + order
	if isByStatus {
		statement = `select ` + head + ` from unnest(` + q.arg(statuses(&f)) + `::text[]) s cross join lateral (
			select * from reprise.runs r where r.status = s and ` + q.where() + order + `) r` + order
	}
	return query(ctx, d, scanHead, statement, q.args...)
}

// every are all statuses.
var every = []snapshot.Status{
	snapshot.StatusQueued, snapshot.StatusRunning, snapshot.StatusPaused, snapshot.StatusInterrupted,
	snapshot.StatusCompleted, snapshot.StatusFailed, snapshot.StatusCancelled,
}

// statuses are those that the filter selects, as they are stored: a run that a crash has
// left is stored as running, and counts as interrupted.
func statuses(f *snapshot.Filter) []string {
	selected := f.Status
	if len(selected) == 0 {
		selected = every
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

// A listing is a statement that is being made.
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

// filter adds what the filter selects beside the status. Times may be of a nanosecond, which
// is why they are not timestamps.
func (q *listing) filter(f *snapshot.Filter) {
	for column, value := range map[string]string{
		"program": f.Program, "program_version": f.Version, "pipeline": f.Pipeline, "parent": f.Parent, "error_class": f.ErrorClass,
	} {
		if value != "" { // the indexes are of those that have one
			q.and("r."+column+" <> ''", "r."+column+" = "+q.arg(text(value)))
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
		pattern := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text(strings.ToLower(f.Text)))
		q.and("r.uid in (select w.uid from reprise.words w where w.words like " + q.arg("%"+strings.ReplaceAll(pattern, between, "\uFFFD")+"%") + ")")
	}
}

// sortedBy are the columns of the orders of lists.
var sortedBy = map[snapshot.Sort]string{
	snapshot.SortUpdated: "r.updated", snapshot.SortCreated: "r.created", snapshot.SortDuration: "(r.updated - r.created)",
	snapshot.SortEnded: "f.ended", snapshot.SortCost: "f.cost", snapshot.SortTokens: "f.tokens", snapshot.SortRetries: "f.retries",
}

// sorted returns a page of a list that is not ordered as List is.
func (d *database) sorted(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
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
		heads, err := storekit.Again(ctx, func() ([]storekit.Head, error) { return d.next(ctx, &f, value, runID, isAfter, n) })
		if err != nil {
			return snapshot.Page{}, err
		}
		for i := range heads {
			info := storekit.Reported(heads[i])
			p.Add(info)
			value, runID, isAfter = f.Sort.Value(&info), info.RunID, true
		}
		if len(heads) < n || p.IsFull() {
			return p.Page(), nil
		}
	}
}

// next returns the n runs after one in the order of the filter. Runs with the same value are in
// the order of their IDs, of which very many may have the lowest value: in an ascending order
// they are read apart, since the index has the values in the other direction.
func (d *database) next(ctx context.Context, f *snapshot.Filter, value int64, runID string, isAfter bool, n int) ([]storekit.Head, error) {
	q, by := &listing{}, sortedBy[f.Sort]
	from, limit := `reprise.runs r`, strconv.Itoa(n)
	if strings.HasPrefix(by, "f.") {
		from = `reprise.figures f join reprise.runs r on r.uid = f.uid`
	}
	id := by[:1] + "." // of the table whose index is used
	if by[0] == '(' {
		id = "r."
	}
	id += "id"
	q.status(f)
	q.filter(f)
	if !f.Ascending {
		if isAfter {
			at := q.arg(value)
			q.and(by+" <= "+at, "("+by+" < "+at+" or "+id+" > "+q.arg(runID)+")")
		}
		return query(ctx, d, scanHead, `select `+head+` from `+from+` where `+q.where()+` order by `+by+` desc, `+id+` limit `+limit, q.args...)
	}
	lowest := `(select min(` + by + `) from ` + strings.Split(from, " join ")[0] + `)`
	if isAfter {
		lowest = q.arg(value) + `::bigint`
	}
	after, where := q.arg(runID), q.where()
	part := func(condition, order string) string {
		return `(select r.*, ` + by + ` as by from ` + from + ` where ` + where + ` and ` + condition + ` order by ` + order + ` limit ` + limit + `)`
	}
	return query(ctx, d, scanHead, `select `+head+` from (`+part(by+` = `+lowest+` and `+id+` > `+after, id)+` union all `+part(by+` > `+lowest, by+`, `+id)+
		`) r order by r.by, r.id limit `+limit, q.args...)
}

// count returns the number of runs of each status that the filter selects without Status. Few
// runs are running: the others are counted in an index.
func (d *database) count(ctx context.Context, f *snapshot.Filter) (map[snapshot.Status]int, error) {
	q := &listing{}
	q.filter(f)
	type count struct {
		Status string
		Runs   int
	}
	found, err := query(ctx, d, pgx.RowToStructByPos[count], `select r.status, count(*) from reprise.runs r where `+q.where()+` and r.status <> 'running' group by 1 union all
		select case when `+isOpen+` then 'running' else 'interrupted' end, count(*) from reprise.runs r where `+q.where()+` and r.status = 'running' group by 1`, q.args...)
	counts := make(map[snapshot.Status]int)
	for _, c := range found {
		counts[snapshot.Status(c.Status)] += c.Runs
	}
	return counts, err
}
