package streamer_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// slowShelf is a shelf whose first read waits for release. If release receives an error, that read
// yields only the error. Later reads do not wait.
type slowShelf struct {
	*shelf
	release chan error
	reads   atomic.Int64
}

func (s *slowShelf) Records(ctx context.Context, id string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if s.reads.Add(1) == 1 {
			select {
			case err := <-s.release:
				if err != nil {
					yield(record.Record{}, err)
					return
				}
			case <-ctx.Done():
				yield(record.Record{}, context.Cause(ctx))
				return
			}
		}
		s.shelf.Records(ctx, id, after)(yield)
	}
}

// TestRequestWaitsForTheReadingOfAnother checks that a request that arrives while the records of a
// run are being read gets all of them, or the same error.
func TestRequestWaitsForTheReadingOfAnother(t *testing.T) {
	broken := errors.New("the disk is broken")
	for name, test := range map[string]struct {
		err           error // of the first reading
		cancelFirst   bool
		cancelSecond  bool
		first, second int // the statuses of the responses; 0 if the request was cancelled
	}{
		"it succeeds":                     {first: 200, second: 200},
		"it fails":                        {err: broken, first: 500, second: 500},
		"the request that reads has left": {cancelFirst: true, second: 200},
		"the request that waits has left": {cancelSecond: true, first: 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &slowShelf{shelf: newShelf(), release: make(chan error, 1)}
				f := newFeed("r", source.put)
				f.open()
				f.call("refund", record.StatusStarted)
				h, err := streamer.New(source, streamer.Options{})
				require.NoError(t, err)
				defer func() { require.NoError(t, h.Close(t.Context())) }()

				ask := func(ctx context.Context) (status func() int) {
					response, done := httptest.NewRecorder(), make(chan struct{})
					req := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/api/runs/r", nil)
					req.RemoteAddr = "127.0.0.1:1"
					go func() {
						defer close(done)
						h.ServeHTTP(response, req)
					}()
					synctest.Wait()
					return func() int {
						<-done
						var body struct{ Run streamer.RunState }
						require.NoError(t, json.Unmarshal(response.Body.Bytes(), &body), response.Body)
						assert.Equal(t, response.Code == 200, body.Run.Calls.Started == 1, "%s", response.Body)
						return response.Code
					}
				}
				firstCtx, leaveFirst := context.WithCancel(t.Context())
				defer leaveFirst()
				secondCtx, leaveSecond := context.WithCancel(t.Context())
				defer leaveSecond()
				first, second := ask(firstCtx), ask(secondCtx)
				if test.cancelSecond {
					leaveSecond()
					assert.NotEqual(t, 200, second())
				}
				if test.cancelFirst {
					leaveFirst()
					assert.NotEqual(t, 200, first())
				} else {
					source.release <- test.err
					assert.Equal(t, test.first, first())
				}
				if !test.cancelSecond {
					assert.Equal(t, test.second, second())
				}
				assert.Equal(t, 200, ask(t.Context())(), "a failed reading is tried again")
			})
		})
	}
}
