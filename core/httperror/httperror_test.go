package httperror_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/record"
)

func response(code int, body string, header ...string) *http.Response {
	w := httptest.NewRecorder()
	for i := 0; i < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
	return w.Result()
}

func TestSuccessIsNotAnError(t *testing.T) {
	for _, code := range []int{200, 201, 204, 299} {
		require.NoError(t, httperror.Check(response(code, "fine")))
	}
}

func TestErrorContainsStatusDelayAndBody(t *testing.T) {
	err := httperror.Check(response(503, "over\n\n  loaded\xff", "Retry-After", "7"))
	require.EqualError(t, err, "503 Service Unavailable: over loaded")
	assert.Equal(t, record.ClassServer, record.Classify(err))
	after, ok := core.RetryAfter(err)
	assert.True(t, ok)
	assert.Equal(t, 7*time.Second, after)

	var e *httperror.Error
	require.ErrorAs(t, fmt.Errorf("fetch: %w", err), &e)
	assert.Equal(t, 503, e.StatusCode())
}

func TestClassFollowsTheStatus(t *testing.T) {
	for code, class := range map[int]record.Class{
		404: record.ClassClient, 408: record.ClassTimeout, 425: record.ClassTooEarly, 429: record.ClassRateLimit, 500: record.ClassServer,
	} {
		assert.Equal(t, class, record.Classify(httperror.Check(response(code, ""))), code)
	}
}

func TestLongBodyIsCut(t *testing.T) {
	err := httperror.Check(response(500, strings.Repeat("x", 10_000)))
	assert.Less(t, len(err.Error()), 400)
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("connection lost") }
func (brokenBody) Close() error             { return nil }

func TestBrokenOrMissingBodyKeepsTheStatus(t *testing.T) {
	for _, body := range []io.ReadCloser{brokenBody{}, nil} {
		err := httperror.Check(&http.Response{StatusCode: 502, Body: body})
		require.EqualError(t, err, "502 Bad Gateway")
	}
}

func ExampleCheck() {
	resp := response(429, "slow down", "Retry-After", "2")
	defer resp.Body.Close()
	err := httperror.Check(resp)
	after, _ := core.RetryAfter(err)
	fmt.Println(err)
	fmt.Println(record.Classify(err), after)
	// Output:
	// 429 Too Many Requests: slow down
	// rate_limit 2s
}
