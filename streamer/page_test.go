package streamer_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

func TestThePageIsCompressedAndKept(t *testing.T) {
	_, server := serve(t, nil, streamer.Options{})
	ask := func(path string, header ...string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		require.NoError(t, err)
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	plain := ask("/app.js", "Accept-Encoding", "identity")
	want, err := io.ReadAll(plain.Body)
	require.NoError(t, err)
	assert.Empty(t, plain.Header.Get("Content-Encoding"))
	assert.Equal(t, "Accept-Encoding", plain.Header.Get("Vary"))

	short := ask("/app.js", "Accept-Encoding", "br, gzip;q=0.8")
	require.Equal(t, "gzip", short.Header.Get("Content-Encoding"))
	assert.Less(t, short.ContentLength, int64(len(want)/2))
	z, err := gzip.NewReader(short.Body)
	require.NoError(t, err)
	got, err := io.ReadAll(z)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	assert.NotEqual(t, plain.Header.Get("ETag"), short.Header.Get("ETag"))

	again := ask("/app.js", "Accept-Encoding", "gzip", "If-None-Match", short.Header.Get("ETag"))
	assert.Equal(t, http.StatusNotModified, again.StatusCode)
	for _, refused := range []string{"gzip;q=0", "gzip; q=0.0", "deflate"} {
		assert.Empty(t, ask("/app.js", "Accept-Encoding", refused).Header.Get("Content-Encoding"), refused)
	}
	assert.Empty(t, ask("/app.js", "Accept-Encoding", "gzip", "Range", "bytes=0-9").Header.Get("Content-Encoding"))
}
