package jetstream

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// names builds the names of a store's streams and subjects.
//
//	RP_<store>   rp.<store>.r.<run>       what happened to a run, in order
//	             rp.<store>.f.<run>       the run's fields that may change at any time
//	             rp.<store>.m.<run>.<id>  messages that wait for the run
//	             rp.<store>.s.<session>   the heartbeat of a process, with the number of its jobs
//	             rp.<store>.p.<program>.<version>.<level>
//	                                      a note that jobs use that level
//	RPI_<store>  rpi.<store>.<status>.<year>.<month>.<day>.<hour>.<run>
//	                                      the index: what List shows, and when the run is due
//	                                      in UTC; zeros for no time; the status of runs that are
//	                                      queued or running is "active"
//	RQ_<store>   rq.<store>.j.<level>.<program>.<version>.<run>
//	                                      a job in the queue
//	             rq.<store>.w.<run>       a job that waits until it is due
//	RPA_<store>                           a bucket with the artifacts
//
// A bucket is a stream, too, in the layout of ADR-20 of NATS
// (https://github.com/nats-io/nats-architecture-and-design):
//
//	OBJ_<bucket>  $O.<bucket>.M.<name>    an object's metadata, as JSON
//	              $O.<bucket>.C.<nuid>    its data
type names struct{ store string }

func (n names) records() string   { return "RP_" + n.store }
func (n names) index() string     { return "RPI_" + n.store }
func (n names) queue() string     { return "RQ_" + n.store }
func (n names) artifacts() string { return "RPA_" + n.store }

func (n names) run(runID string) string   { return "rp." + n.store + ".r." + token(runID) }
func (n names) free(runID string) string  { return "rp." + n.store + ".f." + token(runID) }
func (n names) inbox(runID string) string { return "rp." + n.store + ".m." + token(runID) + ".*" }
func (n names) message(runID, id string) string {
	return "rp." + n.store + ".m." + token(runID) + "." + id
}
func (n names) heartbeat(session string) string { return "rp." + n.store + ".s." + session }
func (n names) indexed(i *snapshot.Info) string {
	return "rpi." + n.store + "." + indexedAs(i.Status) + "." + hourOf(i) + "." + token(i.RunID)
}

// indexedOf returns a subject filter for a run in the index, with any status.
func (n names) indexedOf(runID string) string { return "rpi." + n.store + ".*.*.*.*.*." + token(runID) }

// indexedAs returns a subject filter for all runs in the index with the given status.
func (n names) indexedAs(status string) string { return "rpi." + n.store + "." + status + ".*.*.*.*.*" }

func (n names) level(p puller) string {
	return "rp." + n.store + ".p." + programToken(p.program) + "." + strconv.Itoa(p.level)
}
func (n names) all(class string) string { return "rp." + n.store + "." + class + ".>" }

// bucket returns the name of the stream that holds the artifacts.
func (n names) bucket() string { return "OBJ_" + n.artifacts() }

// object returns the subject for an artifact's entry. If ref is *, it matches the entries of all
// artifacts.
func (n names) object(ref string) string {
	if ref != "*" {
		ref = base64.URLEncoding.EncodeToString([]byte(ref))
	}
	return "$O." + n.artifacts() + ".M." + ref
}

// objectData returns the subject for the data that an object names.
func (n names) objectData(nuid string) string { return "$O." + n.artifacts() + ".C." + nuid }

// firstYear is the first year in the subjects. Runs that are due before it are indexed at its
// beginning.
const firstYear = 2020

// noHour stands for a missing due time in a subject.
const noHour = "0.0.0.0"

// hourOf returns the hour in which a waiting run is due, in the form used in subjects. For other
// runs, it returns noHour.
func hourOf(i *snapshot.Info) string {
	due := i.Due.UTC()
	if i.Due.IsZero() || i.Status != snapshot.StatusQueued && i.Status != snapshot.StatusPaused && i.Status != snapshot.StatusInterrupted {
		return noHour
	}
	if year := due.Year(); year < firstYear {
		due = time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
	} else if year > 9999 {
		due = time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)
	}
	return due.Format("2006.01.02.15")
}

// hoursUntil returns patterns that match all hours up to and including the hour of t. It returns as
// few patterns as possible.
func hoursUntil(t time.Time) (hours []string) {
	t = t.UTC()
	for year := firstYear; year < min(t.Year(), 9999); year++ {
		hours = append(hours, fmt.Sprintf("%04d.*.*.*", year))
	}
	for month := 1; month < int(t.Month()); month++ {
		hours = append(hours, fmt.Sprintf("%s.%02d.*.*", t.Format("2006"), month))
	}
	for day := 1; day < t.Day(); day++ {
		hours = append(hours, fmt.Sprintf("%s.%02d.*", t.Format("2006.01"), day))
	}
	for hour := 0; hour <= t.Hour(); hour++ {
		hours = append(hours, fmt.Sprintf("%s.%02d", t.Format("2006.01.02"), hour))
	}
	return hours
}

// activeStatus is the status in the subjects of runs that are queued or running. Since they share
// it, a queued run does not have to be moved in the index when it begins to run, which is soon for
// most runs.
const activeStatus = "active"

// inactiveStatuses are all other statuses.
var inactiveStatuses = []snapshot.Status{
	snapshot.StatusPaused, snapshot.StatusInterrupted, snapshot.StatusCompleted, snapshot.StatusFailed, snapshot.StatusCancelled,
}

// indexedAs returns a status in the form used in the index's subjects.
func indexedAs(status snapshot.Status) string {
	if status == snapshot.StatusQueued || status == snapshot.StatusRunning {
		return activeStatus
	}
	return string(status)
}

// statusIn returns the status that an index subject contains.
func statusIn(subject string) string {
	parts := strings.SplitN(subject, ".", 4)
	if len(parts) < 4 {
		return ""
	}
	return parts[2]
}

// indexedRun returns the ID of the run in a subject of the index.
func indexedRun(subject string) string {
	return strings.ReplaceAll(subject[strings.LastIndexByte(subject, '.')+1:], "~", ".")
}

// token returns a run ID in the form used in subjects, where dots are separators.
func token(runID string) string { return strings.ReplaceAll(runID, ".", "~") }

// parse returns the class in a subject of the stream of records, and the ID of the run or session.
func parse(subject string) (class, id string) {
	parts := strings.Split(subject, ".")
	if len(parts) < 4 {
		return "", ""
	}
	return parts[2], strings.ReplaceAll(parts[3], "~", ".")
}
