package browser

import (
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

// following opens the page at the URL and checks that it shows the progress of a run.
func following(t *testing.T, s *site, url string) *tab {
	t.Helper()
	st := begin(t, s.dash, "trip-1")
	succeed(t, st, "get_map")
	p := open(t, url)
	p.waitText(`[data-run="trip-1"] .calls`, "1 ok")
	succeed(t, st, "get_weather")
	p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
	p.click(`[data-run="trip-1"] a`)
	p.wait(`document.querySelectorAll("[data-call]").length === 2`)
	return p
}

func stripPrefix(dash http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/ops/runs", http.StripPrefix("/ops/runs", dash))
	mux.Handle("/ops/runs/", http.StripPrefix("/ops/runs", dash))
	return mux
}

func TestThePageWorksUnderAPrefix(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, stripPrefix)
	p := following(t, s, s.url()+"ops/runs") // a redirect adds the slash
	assert.Contains(t, eval[string](p, "location.href"), "/ops/runs/#run=trip-1")
}

func TestThePageWorksBehindAReverseProxy(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	target, err := url.Parse(s.url())
	require.NoError(t, err)
	front := httptest.NewServer(http.StripPrefix("/proxied/here", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}))
	t.Cleanup(front.Close)
	following(t, s, front.URL+"/proxied/here/")
}

func TestThePageWorksBehindGzip(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, compressed)
	following(t, s, s.url())
}

// compressed is a gzip middleware in which each flush of the handler also flushes the compressor.
func compressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !strings.Contains(req.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := &gzipWriter{ResponseWriter: w, zip: gzip.NewWriter(w)}
		next.ServeHTTP(z, req)
		_ = z.zip.Close()
	})
}

type gzipWriter struct {
	http.ResponseWriter
	zip *gzip.Writer
}

func (z *gzipWriter) WriteHeader(code int) {
	z.Header().Del("Content-Length")
	z.ResponseWriter.WriteHeader(code)
}

func (z *gzipWriter) Write(p []byte) (int, error) { return z.zip.Write(p) }

func (z *gzipWriter) Unwrap() http.ResponseWriter { return z.ResponseWriter }

func (z *gzipWriter) FlushError() error {
	if err := z.zip.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(z.ResponseWriter).Flush()
}
