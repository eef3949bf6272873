package record_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

// get returns the error of a request, or of reading its body.
func get(t *testing.T, client *http.Client, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	return err
}

func TestResetHTTP2StreamIsTransient(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"before the response": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"in the middle": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		server := httptest.NewUnstartedServer(handler)
		server.EnableHTTP2 = true
		server.StartTLS()
		err := get(t, server.Client(), server.URL)
		server.Close()
		require.ErrorContains(t, err, "stream error", name)
		assert.Equal(t, record.ClassConnection, record.Classify(err), "%s: %v", name, err)
	}
}

// A server that is shutting down may send GOAWAY and close the connection at once.
func TestGoAwayIsTransient(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.StartTLS() // for its certificate
	defer server.Close()
	config := &tls.Config{Certificates: server.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener = tls.NewListener(listener, config)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			n := 0
			for n < 24+9+1 { // the preface and the beginning of the first frames
				m, err := conn.Read(buf)
				if n += m; err != nil {
					break
				}
			}
			_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})                                      // SETTINGS
			_, _ = conn.Write([]byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 11}) // GOAWAY, ENHANCE_YOUR_CALM
			_ = conn.Close()
		}
	}()
	client := server.Client()
	err = get(t, client, (&url.URL{Scheme: "https", Host: listener.Addr().String()}).String())
	require.Error(t, err)
	t.Log(err)
	assert.True(t, record.Classify(err).IsTransient(), "%v is %v", err, record.Classify(err))
	require.NoError(t, listener.Close())
	<-done
}

func TestErrorsOfSocketsAreTransient(t *testing.T) {
	for number, want := range map[syscall.Errno]record.Class{
		syscall.EHOSTUNREACH: record.ClassNetwork, syscall.ENETUNREACH: record.ClassNetwork, syscall.ENETDOWN: record.ClassNetwork,
		syscall.ETIMEDOUT: record.ClassTimeout,
		10051:             record.ClassNetwork, 10065: record.ClassNetwork, 10060: record.ClassTimeout, // Windows
		10053: record.ClassConnection, 10054: record.ClassConnection, 10061: record.ClassConnection,
		syscall.EACCES: record.ClassUnknown, 10013: record.ClassUnknown,
	} {
		err := error(&url.Error{Op: "Get", URL: "http://x", Err: &net.OpError{Op: "dial", Err: fmt.Errorf("connect: %w", number)}})
		assert.Equal(t, want, record.Classify(err), "%d: %v", uintptr(number), err)
	}
}
