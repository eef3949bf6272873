package openaitest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/openai/openaitest"
)

func TestRateLimitSaysWhenToComeBack(t *testing.T) {
	for _, tc := range []struct {
		name          string
		step          openaitest.Step
		seconds, msec string
	}{
		{"seconds", openaitest.RateLimited(2 * time.Second), "2", ""},
		{"at once", openaitest.RateLimited(0), "0", ""},
		{"never in the past", openaitest.RateLimited(-time.Hour), "0", ""},
		{"milliseconds", openaitest.RateLimited(1250 * time.Millisecond), "", "1250"},
		{"milliseconds are rounded up", openaitest.RateLimited(1001 * time.Microsecond), "", "2"},
		{"no header", openaitest.Failure(429, "slow down"), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := openaitest.New(t, tc.step)
			status, header, body := answer(t, srv, hello)
			require.Equal(t, 429, status)
			require.Equal(t, tc.seconds, header.Get("Retry-After"))
			require.Equal(t, tc.msec, header.Get("Retry-After-Ms"))
			require.Equal(t, "rate_limit_exceeded", errorBody(t, body).Code)
		})
	}
}

func TestFailureIsAnAPIErrorToTheClient(t *testing.T) {
	for status, code := range map[int]any{
		400: nil, 401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded", 500: nil, 503: nil,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			srv := openaitest.New(t, openaitest.Failure(status, "no luck"))
			_, err := ask(t, srv)
			var apiErr *openai.APIError
			require.ErrorAs(t, err, &apiErr)
			require.Equal(t, status, apiErr.HTTPStatusCode)
			require.Equal(t, "no luck", apiErr.Message)
			if code != nil {
				require.Equal(t, code, apiErr.Code)
			}
		})
	}
}

func TestErrorCodeCanBeSet(t *testing.T) {
	srv := openaitest.New(t, openaitest.Failure(429, "pay").WithErrorCode("insufficient_quota"))
	_, _, body := answer(t, srv, hello)
	require.Equal(t, "insufficient_quota", errorBody(t, body).Code)
}

func TestRawIsSentAsItIs(t *testing.T) {
	srv := openaitest.New(t, openaitest.Raw(502, "<h1>Bad Gateway</h1>").WithHeader("Content-Type", "text/html"))
	status, header, body := answer(t, srv, hello)
	require.Equal(t, 502, status)
	require.Equal(t, "text/html", header.Get("Content-Type"))
	require.Equal(t, "<h1>Bad Gateway</h1>", body)
}

func TestResetIsSeenAsConnectionReset(t *testing.T) {
	srv := openaitest.New(t, openaitest.Repeat(2, openaitest.Reset()))
	_, err := post(t.Context(), newClient(t), srv, hello)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = ask(t, srv)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestHangUpIsSeenAsEOF(t *testing.T) {
	srv := openaitest.New(t, openaitest.Repeat(2, openaitest.HangUp()))
	_, err := post(t.Context(), newClient(t), srv, hello)
	require.ErrorIs(t, err, io.EOF)
	_, err = ask(t, srv)
	require.ErrorIs(t, err, io.EOF)
}

func TestTruncatedReplyIsSeenAsUnexpectedEOF(t *testing.T) {
	srv := openaitest.New(t, openaitest.Repeat(2, openaitest.Text("Only half of this is sent.").CutAfter(1)))
	res, err := post(t.Context(), newClient(t), srv, hello)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
	body, err := io.ReadAll(res.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotEmpty(t, body)
	require.Less(t, int64(len(body)), res.ContentLength)

	_, err = ask(t, srv)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestAClientSurvivesEveryBrokenConnection(t *testing.T) {
	srv := openaitest.New(t,
		openaitest.Text("first"), openaitest.Reset(), openaitest.Text("second"),
		openaitest.HangUp(), openaitest.Text("Only half of this is sent.").CutAfter(1), openaitest.Text("third"))
	client := goOpenAI(t, srv)
	var texts []string
	for range 6 {
		got, err := client.CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{
			Model: "gpt-4o", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "Hello"}},
		})
		if err == nil {
			texts = append(texts, got.Choices[0].Message.Content)
		}
	}
	require.Equal(t, []string{"first", "second", "third"}, texts)
}

func TestAfterDelaysTheAnswer(t *testing.T) {
	const delay = 30 * time.Millisecond
	srv := openaitest.New(t, openaitest.Text("Hi").After(delay))
	begin := time.Now()
	_, err := ask(t, srv)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begin), delay)
}

func TestUntilHoldsTheAnswerBack(t *testing.T) {
	gate, arrived := make(chan struct{}), make(chan struct{})
	srv := openaitest.New(t, openaitest.Respond(func(openaitest.Request) openaitest.Step {
		close(arrived)
		return openaitest.Text("Hi").Until(gate)
	}))
	done := make(chan error, 1)
	go func() {
		_, err := ask(t, srv)
		done <- err
	}()
	<-arrived
	select {
	case err := <-done:
		t.Fatalf("answered before the gate opened: %v", err)
	default:
	}
	close(gate)
	require.NoError(t, <-done)
}

func TestAWaitEndsWhenTheClientLeaves(t *testing.T) {
	never := make(chan struct{})
	for name, slow := range map[string]openaitest.Step{
		"after": openaitest.Text("Hi").After(time.Hour),
		"until": openaitest.Text("Hi").Until(never),
		"stall": openaitest.Stall(),
	} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			srv := openaitest.New(t, openaitest.Respond(func(openaitest.Request) openaitest.Step {
				close(arrived)
				return slow
			}))
			ctx, leave := context.WithCancel(t.Context())
			go func() { <-arrived; leave() }()
			_, err := post(ctx, newClient(t), srv, hello)
			require.ErrorIs(t, err, context.Canceled)
			require.NoError(t, srv.Err(), "a client may leave")
		})
	}
}

func TestCloseEndsAWaitWithoutAnAnswer(t *testing.T) {
	never := make(chan struct{})
	for name, slow := range map[string]openaitest.Step{
		"after": openaitest.Text("Hi").After(time.Hour),
		"until": openaitest.Text("Hi").Until(never),
		"stall": openaitest.Stall(),
	} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			srv := openaitest.New(t, openaitest.Respond(func(openaitest.Request) openaitest.Step {
				close(arrived)
				return slow
			}))
			done := make(chan error, 1)
			go func() {
				res, err := post(t.Context(), newClient(t), srv, hello)
				if err == nil {
					res.Body.Close()
					err = errors.New("answered " + res.Status)
				} else {
					err = nil
				}
				done <- err
			}()
			<-arrived
			require.NoError(t, srv.Close())
			require.NoError(t, <-done)
		})
	}
}
