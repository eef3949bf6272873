package streamer_test

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// written is a source with one run.
type written []record.Record

func (w written) info() streamer.RunInfo {
	return streamer.RunInfo{RunID: "trip-1", Status: "running", LastSeq: uint64(len(w))}
}

func (w written) List(_ context.Context, q streamer.Query) (streamer.RunPage, error) {
	return streamer.PageOf([]streamer.RunInfo{w.info()}, q)
}

func (w written) Artifact(context.Context, string) ([]byte, error) { return nil, streamer.ErrNotFound }

func (w written) Answered(context.Context, string) ([]string, error) { return nil, nil }

func (w written) Run(context.Context, string) (streamer.RunInfo, error) { return w.info(), nil }

func (w written) Records(_ context.Context, _ string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for _, rec := range w {
			if rec.Seq > after && !yield(rec, nil) {
				return
			}
		}
	}
}

// A record that another process added to the run, such as an answer, was not published to this
// handler. The snapshot of the run must still contain it.
func TestASnapshotHasWhatWasNotPublished(t *testing.T) {
	var all written
	for seq := range uint64(6) {
		rec := record.Record{RunID: "trip-1", Seq: seq + 1, Time: time.Unix(int64(seq), 0), Kind: record.KindLog, Status: record.StatusRecorded}
		if seq == 0 {
			rec.Kind, rec.Status = record.KindRun, record.StatusStarted
		}
		all = append(all, rec)
	}
	for name, query := range map[string]string{"all of it": "", "the newest": "?limit=4"} {
		t.Run(name, func(t *testing.T) {
			h, err := streamer.New(all, streamer.Options{})
			require.NoError(t, err)
			defer h.Close(t.Context())
			for _, rec := range all {
				if rec.Seq != 4 {
					h.Publish(rec)
				}
			}
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/runs/trip-1"+query, nil)
			req.RemoteAddr = "127.0.0.1:1"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			var body struct {
				Records []struct{ Seq uint64 } `json:"records"`
				Omitted uint64                 `json:"omitted"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body)
			for i, rec := range body.Records {
				assert.Equal(t, body.Omitted+uint64(i)+1, rec.Seq)
			}
			assert.Len(t, body.Records, 6-int(body.Omitted))
			assert.Equal(t, map[string]uint64{"": 0, "?limit=4": 2}[query], body.Omitted)
		})
	}
}
