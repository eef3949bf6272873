package jetstream

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// names are those of the streams and subjects of a store.
//
//	RP_<store>   rp.<store>.r.<run>       what happened to a run, in order
//	             rp.<store>.f.<run>       what may change of it at any time
//	             rp.<store>.m.<run>.<id>  messages that wait for it
//	             rp.<store>.s.<session>   the life sign of a process, with the number of its jobs
//	             rp.<store>.p.<program>.<version>.<level>
//	                                      a note that runs have that priority
//	RPI_<store>  rpi.<store>.<run>        the index: what List shows
//	RPA_<store>                           a bucket with the artifacts
//
// A bucket is a stream, too, in the layout of ADR-20 of NATS
// (https://github.com/nats-io/nats-architecture-and-design):
//
//	OBJ_<bucket>  $O.<bucket>.M.<name>    what is known of an object, as JSON
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
func (n names) sign(session string) string  { return "rp." + n.store + ".s." + session }
func (n names) indexed(runID string) string { return "rpi." + n.store + "." + token(runID) }
func (n names) level(p puller) string {
	return "rp." + n.store + ".p." + safe(p.program.Name) + "." + safe(p.program.Version) + "." + strconv.Itoa(p.level)
}
func (n names) all(class string) string { return "rp." + n.store + "." + class + ".>" }

// bucket is the stream of the artifacts.
func (n names) bucket() string { return "OBJ_" + n.artifacts() }

// object is the subject of an artifact, * that of all.
func (n names) object(ref string) string {
	if ref != "*" {
		ref = base64.URLEncoding.EncodeToString([]byte(ref))
	}
	return "$O." + n.artifacts() + ".M." + ref
}

// objectData is the subject of the data that an object names.
func (n names) objectData(nuid string) string { return "$O." + n.artifacts() + ".C." + nuid }

// indexedRun is the run of a subject of the index.
func indexedRun(subject string) string {
	return strings.ReplaceAll(subject[strings.LastIndexByte(subject, '.')+1:], "~", ".")
}

// token is a run ID as a part of a subject, where a dot separates.
func token(runID string) string { return strings.ReplaceAll(runID, ".", "~") }

// parse returns what a subject of the records is about: its class, and the run
// or the session.
func parse(subject string) (class, id string) {
	parts := strings.Split(subject, ".")
	if len(parts) < 4 {
		return "", ""
	}
	return parts[2], strings.ReplaceAll(parts[3], "~", ".")
}
