package agui_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A page that follows a turn needs memory for the earlier messages only once: the server keeps
// neither what was sent nor what the page has posted.
func TestIdlePageKeepsTheEarlierMessagesOnce(t *testing.T) {
	const (
		size  = 4 << 20
		pages = 10
	)
	model := actors.NewLLM("model", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		if req.Messages[len(req.Messages)-1].Text == "wait" {
			<-ctx.Done()
			return actors.Response{}, context.Cause(ctx)
		}
		return actors.Response{Message: actors.Assistant(strings.Repeat("w", size/10))}, nil
	})
	url, stop := serve(t, memstore.New(), actors.NewAgent("assistant", model))
	longThread(t, url, 10)
	follow := func(path, body string, least int64) {
		resp, err := http.Post(url+"agui/assistant"+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		_, err = io.CopyN(io.Discard, resp.Body, least)
		require.NoError(t, err)
	}
	follow("", say("a", "wait"), 1)
	posted := input("a", "", user(strings.Repeat("p", size)))
	before := heap()
	for range pages {
		follow("/connect", posted, size)
	}
	each := (heap() - before) / pages
	t.Logf("%d KB for each page", each>>10)
	assert.Less(t, each, int64(size)*3/2)
	stop()
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
