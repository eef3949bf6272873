package clients

import (
	"context"
	"errors"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// site serves a run.
type site struct {
	handler *streamer.Handler
	address string
	records []record.Record
}

func newSite(t *testing.T) *site {
	t.Helper()
	h, err := streamer.New(nil, streamer.Options{Heartbeat: 5 * time.Millisecond, Reconnect: time.Millisecond})
	require.NoError(t, err)
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		require.NoError(t, h.Close(context.WithoutCancel(t.Context())))
		server.Close()
	})
	return &site{handler: h, address: server.Listener.Addr().String()}
}

// publish publishes the n records of a run in the background. It holds back the last one until calm
// returns true, so that the run ends only after all cuts.
func (s *site) publish(t *testing.T, n int, calm func() bool) {
	address, err := record.ParseAddress("fetch")
	require.NoError(t, err)
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	s.records = append(s.records, record.Record{Kind: record.KindRun, Status: record.StatusStarted})
	for i := range n - 2 {
		r := record.Record{Kind: record.KindTool, Name: "fetch", Address: address, MaxAttempts: 5}
		switch i % 4 {
		case 0:
			r.Status = record.StatusStarted
		case 1:
			r.Status, r.WillRetry, r.Err = record.StatusFailed, true, errors.New("503 — überlastet\nagain")
		case 2:
			r.Status = record.StatusRetrying
		case 3:
			r.Status, r.Detail = record.StatusCompleted, &record.Detail{Message: "step " + strconv.Itoa(i)}
		}
		s.records = append(s.records, r)
	}
	s.records = append(s.records, record.Record{Kind: record.KindRun, Status: record.StatusCompleted})
	for i := range s.records {
		r := &s.records[i]
		r.RunID, r.Seq, r.Generation, r.Time = "r", uint64(i+1), 1, at.Add(time.Duration(i)*time.Millisecond)
	}
	s.handler.Publish(s.records[0]) // so that clients can find the run
	var publishing sync.WaitGroup
	publishing.Go(func() {
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for i, r := range s.records[1:] {
			if i%4 == 0 || i == n-2 && !calm() {
				select {
				case <-pace.C:
				case <-t.Context().Done():
					return
				}
			}
			s.handler.Publish(r)
		}
	})
	t.Cleanup(publishing.Wait)
}

// wanted returns the numbers of the records that match the filter.
func (s *site) wanted(filter string) (numbers []uint64) {
	for _, r := range s.records {
		if filter == "" || r.Status == record.StatusFailed || r.Status == record.StatusCompleted {
			numbers = append(numbers, r.Seq)
		}
	}
	return numbers
}
