package streamer_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// gzipped is a typical middleware that compresses responses.
func gzipped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := &gzipWriter{ResponseWriter: w, z: gzip.NewWriter(w)}
		defer z.z.Close()
		next.ServeHTTP(z, req)
	})
}

type gzipWriter struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w *gzipWriter) Write(p []byte) (int, error) { return w.z.Write(p) }

func (w *gzipWriter) FlushError() error {
	if err := w.z.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *gzipWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestEventsComeThroughPrefixesProxiesAndEncodings(t *testing.T) {
	h, direct := serve(t, nil, streamer.Options{Authorize: func(*http.Request) (streamer.Access, error) { return streamer.Access{}, nil }})
	f := newFeed("r", h.Publish)
	f.open()

	target, err := url.Parse(direct.URL)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/some/prefix/", http.StripPrefix("/some/prefix", h))
	h2 := httptest.NewUnstartedServer(h)
	h2.EnableHTTP2 = true
	h2.StartTLS()
	for name, server := range map[string]*httptest.Server{
		"prefix":        httptest.NewServer(mux),
		"reverse proxy": httptest.NewServer(httputil.NewSingleHostReverseProxy(target)),
		"gzip":          httptest.NewServer(gzipped(h)),
		"HTTP/2":        h2,
	} {
		t.Run(name, func(t *testing.T) {
			base := server.URL
			if name == "prefix" {
				base += "/some/prefix"
			}
			client := streamer.Client{URL: base, Run: "r", HTTPClient: server.Client()}
			next := uint64(1)
			for e, err := range client.Events(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, next, seqOf(t, e))
				if next++; next > 5 {
					break
				}
				if next > f.seq {
					f.log(1) // not before: the earlier events must arrive without later ones
				}
			}
			resp, err := server.Client().Get(base + "/health")
			require.NoError(t, err)
			data, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			if name == "HTTP/2" {
				assert.Equal(t, 2, resp.ProtoMajor)
			}
			assert.Contains(t, string(data), `"status":"ok"`)
			server.CloseClientConnections()
			server.Close()
		})
	}
}

func TestPathWithoutItsSlashLeadsToThePage(t *testing.T) {
	h, _ := serve(t, nil, streamer.Options{})
	mux := http.NewServeMux()
	mux.Handle("/runs", http.StripPrefix("/runs", h))
	mux.Handle("/runs/", http.StripPrefix("/runs", h))
	server := httptest.NewServer(mux)
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/runs")
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, "/runs/", resp.Request.URL.Path)
	assert.Contains(t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'")
	assert.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
}

func TestHeadersKeepProxiesFromHoldingBack(t *testing.T) {
	_, server := serve(t, nil, streamer.Options{})
	w := connect(t, server.URL+"/events", "")
	assert.Equal(t, "text/event-stream", w.Header.Get("Content-Type"))
	assert.Contains(t, w.Header.Get("Cache-Control"), "no-transform")
	assert.Equal(t, "no", w.Header.Get("X-Accel-Buffering"))
	assert.NotEmpty(t, w.retry(t), "at once")
}

func TestBytesOfAnEventAreOneIDOneNameOneLineOfData(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("evil\nid: 9\rdata: x", h.Publish)
	f.open()
	hostile := "line\r\nid: 666\n\ndata: planted\x00\u2028\xff"
	f.call("a", record.StatusFailed, func(r *record.Record) {
		r.Name, r.Err = hostile, io.ErrUnexpectedEOF
		r.Detail = &record.Detail{Message: hostile, Metadata: map[string]any{hostile: hostile}}
	})
	w := connect(t, server.URL+"/events?run="+url.QueryEscape(f.runID), "")
	w.block(t)
	var raw strings.Builder
	for !strings.HasSuffix(raw.String(), "\n\n") {
		line, err := w.lines.ReadString('\n')
		require.NoError(t, err)
		raw.WriteString(line)
	}
	lines := strings.Split(strings.TrimSuffix(raw.String(), "\n\n"), "\n")
	require.Len(t, lines, 3)
	assert.Regexp(t, `^data: \{.*\}$`, lines[0], "the data first")
	assert.Equal(t, "event: failed", lines[1])
	assert.Regexp(t, `^id: [0-9]+\.[0-9a-z]+-2$`, lines[2], "the ID last")
	assert.NotContains(t, raw.String(), "\r")
	assert.NotContains(t, raw.String(), "\x00")
}

func TestRecordThatIsTooLongIsCut(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	f.call("a", record.StatusFailed, func(r *record.Record) {
		r.Err = io.ErrUnexpectedEOF
		r.Detail = &record.Detail{Message: strings.Repeat("é", 1<<20), Metadata: map[string]any{"big": strings.Repeat("x", 1<<20)}}
	})
	w := connect(t, server.URL+"/events?run=r", "")
	seqs(t, w, 1)
	_, _, data := w.event(t)
	assert.Less(t, len(data), 20<<10)
	assert.Contains(t, data, `"truncated"`)
	assert.Contains(t, data, `"original_error":"unexpected EOF"`)
}

func TestHeadOfAStreamIsNotAStream(t *testing.T) {
	_, server := serve(t, nil, streamer.Options{})
	resp, err := http.Head(server.URL + "/events")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
}
