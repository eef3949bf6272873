package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Each case is tested with a new connection and with a reused one, for which net/http returns
// different errors.
func TestTransientFailuresAreRetried(t *testing.T) {
	for _, tc := range []struct {
		name  string
		step  openaitest.Step
		class record.Class
		text  string
	}{
		{"408", openaitest.Failure(408, "slow"), record.ClassTimeout, "status 408"},
		{"425", openaitest.Failure(425, "early"), record.ClassTooEarly, "status 425"},
		{"429", openaitest.Failure(429, "limit"), record.ClassRateLimit, "status 429, type requests, code rate_limit_exceeded, request req_"},
		{"500", openaitest.Failure(500, "oh"), record.ClassServer, "status 500, type server_error"},
		{"529", openaitest.Failure(529, "overloaded"), record.ClassServer, "overloaded"},
		{"502 of a gateway", openaitest.Raw(502, "<html>\n Bad  Gateway\n</html>").WithHeader("Content-Type", "text/html"), record.ClassServer, ": <html> Bad Gateway </html>"},
		{"503 of another API", openaitest.Raw(503, `{"detail":"loading"}`), record.ClassServer, `: {"detail":"loading"}`},
		{"500 without a body", openaitest.Raw(500, ""), record.ClassServer, "status 500, request req_"},
		{"409 that is to be retried", openaitest.Failure(409, "lock").WithHeader("X-Should-Retry", "true"), record.ClassClient, "lock"},
		{"reset", openaitest.Reset(), record.ClassConnection, ""},
		{"hang-up", openaitest.HangUp(), record.ClassConnection, ""},
		{"truncated reply", openaitest.Text("Only half of this is sent.").CutAfter(1), record.ClassEOF, "unexpected EOF"},
		{"malformed reply", openaitest.Raw(200, `{"choices":[{]}`), record.ClassServer, "openai: malformed reply: invalid character"},
		{"reply of another shape", openaitest.Raw(200, `{"choices":"none"}`), record.ClassServer, "openai: malformed reply: "},
		{"reply without a body", openaitest.Raw(200, ""), record.ClassServer, "openai: malformed reply: "},
		{"reply without choices", openaitest.Raw(200, `{"choices":[]}`), record.ClassServer, "openai: the reply has no choices"},
	} {
		for n := range 4 {
			reused, external := n%2 == 1, n > 1
			t.Run(fmt.Sprintf("%s/reused=%v/foreign=%v", tc.name, reused, external), func(t *testing.T) {
				steps := []openaitest.Step{tc.step, openaitest.Text("Fine.")}
				if reused {
					steps = append([]openaitest.Step{openaitest.Text("Hi.")}, steps...)
				}
				srv, st, llm := setup(t, steps, atOnce)
				if external {
					llm = openai.New("gpt-4o-mini", openai.WithClient(newClient(t, srv.URL())), atOnce)
				}
				ctx := st.Context(t.Context())
				if reused {
					_, err := llm.Call(t.Context(), question)
					require.NoError(t, err)
				}
				got, err := llm.Call(ctx, question)
				require.NoError(t, err)
				require.Equal(t, "Fine.", got.Message.Text)

				failed := records(t, st, record.StatusFailed)
				require.Len(t, failed, 1)
				require.Equal(t, tc.class, failed[0].Class, "%v", failed[0].Err)
				require.ErrorContains(t, failed[0].Err, tc.text)
				require.Equal(t, record.SourceBackoff, records(t, st, record.StatusRetrying)[0].DelaySource)
				require.Len(t, srv.Requests(), len(steps), "each request is an attempt on record")
			})
		}
	}
}

// A model whose calls must not be repeated is called only once if the service may have answered. It
// is called again only if the service cannot have answered.
func TestCallsThatMustNotBeRepeated(t *testing.T) {
	for _, tc := range []struct {
		name    string
		step    openaitest.Step
		inDoubt bool
	}{
		{"500", openaitest.Failure(500, "oh"), true},
		{"502 of a gateway", openaitest.Raw(502, "<html>Bad Gateway</html>"), true},
		{"reset", openaitest.Reset(), true},
		{"hang-up", openaitest.HangUp(), true},
		{"truncated reply", openaitest.Text("Only half of this is sent.").CutAfter(1), true},
		{"malformed reply", openaitest.Raw(200, `{"choices":[{]}`), true},
		{"reply without choices", openaitest.Raw(200, `{"choices":[]}`), true},
		{"503", openaitest.Failure(503, "busy"), false},
		{"429", openaitest.Failure(429, "limit"), false},
		{"409 that is to be retried", openaitest.Failure(409, "lock").WithHeader("X-Should-Retry", "true"), false},
		{"503 that is to be retried", openaitest.Failure(503, "busy").WithHeader("X-Should-Retry", "true"), false},
		{"500 that is to be retried", openaitest.Failure(500, "oh").WithHeader("X-Should-Retry", "true"), true},
		{"504 that is to be retried", openaitest.Failure(504, "slow").WithHeader("X-Should-Retry", "true"), true},
		{"failed reply that is to be retried", openaitest.Raw(200, `{"error":{"message":"oh"}}`).WithHeader("X-Should-Retry", "true"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			steps := []openaitest.Step{tc.step}
			if !tc.inDoubt {
				steps = append(steps, openaitest.Text("Fine."))
			}
			srv, st, llm := setup(t, steps, atOnce, actors.WithInDoubt(core.InDoubtFail))
			_, err := llm.Call(st.Context(t.Context()), question)
			require.Len(t, srv.Requests(), len(steps))
			if tc.inDoubt {
				require.ErrorIs(t, err, core.ErrInDoubt)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestAMalformedReplySaysWhereAndWhatIsWrong(t *testing.T) {
	for _, tc := range []struct{ reply, want string }{
		{`{"choices":"none"}`, "openai: malformed reply: choices: got string, want an array"},
		{`[]`, "openai: malformed reply: the document: got array, want an object"},
		{"<html>\n<b>Log in</b></html>", "openai: malformed reply: want JSON, got: <html> <b>Log in</b></html>"},
		{"Your key is " + secret, "openai: malformed reply: want JSON, got: Your key is [redacted]"},
		{`{"success":false,"reason":"key ` + secret + `"}`, `openai: the reply has no choices: {"success":false,"reason":"key [redacted]"}`},
		{`{"success":false,"message":"no such deployment"}`, `openai: request req_1: {"success":false,"message":"no such deployment"}`},
		{`{"object":"error","message":"no such model","code":404}`, "openai: status 404, request req_1: no such model"},
		{`{"choices":[7]}`, "openai: malformed reply: choices.0: got number, want an object"},
		{`{"choices":[{"message":{"tool_calls":[{"function":[]}]}}]}`, "openai: malformed reply: choices.0.message.tool_calls.0.function: got array, want an object"},
		{`{"choices":[{"message":{"content":"Fine."}}],"usage":{"prompt_tokens":"many"}}`, `openai: malformed reply: got "many", want a number`},
		{`{"choices":[{"message":{"reasoning_content":true}}]}`, "openai: malformed reply: choices.0.message.reasoning_content: got bool, want a string"},
	} {
		t.Run(tc.reply, func(t *testing.T) {
			_, _, llm := setup(t, []openaitest.Step{openaitest.Raw(200, tc.reply)}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
			_, err := llm.Call(t.Context(), question)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestARefusedConnectionIsRetried(t *testing.T) {
	srv, err := openaitest.Start()
	require.NoError(t, err)
	require.NoError(t, srv.Close())
	st := state.New()
	defer st.Close()
	_, err = llmAt(t, srv.URL(), atOnce).Call(st.Context(t.Context()), question)
	require.ErrorIs(t, err, core.ErrExhausted)
	require.Equal(t, record.ClassConnection, record.Classify(err))
	require.Len(t, records(t, st, record.StatusStarted), 3)
}

func TestOtherFailuresAreNotRetried(t *testing.T) {
	for _, tc := range []struct {
		name  string
		step  openaitest.Step
		class record.Class
	}{
		{"400", openaitest.Failure(400, "bad"), record.ClassClient},
		{"401", openaitest.Failure(401, "who"), record.ClassClient},
		{"403", openaitest.Failure(403, "no"), record.ClassClient},
		{"404", openaitest.Failure(404, "none"), record.ClassClient},
		{"409", openaitest.Failure(409, "conflict"), record.ClassClient},
		{"422", openaitest.Raw(422, `{"error":"bad"}`), record.ClassClient},
		{"exhausted quota", openaitest.RateLimited(time.Second).WithErrorCode("insufficient_quota"), record.ClassPermanent},
		{"inactive account", openaitest.Raw(429, `{"error":{"message":"pay","type":"billing_not_active","code":null}}`), record.ClassPermanent},
		{"500 that is not to be retried", openaitest.Failure(500, "oh").WithHeader("X-Should-Retry", "false"), record.ClassPermanent},
		{"429 that is not to be retried", openaitest.RateLimited(time.Second).WithHeader("X-Should-Retry", "false"), record.ClassPermanent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv, st, llm := setup(t, []openaitest.Step{tc.step}, atOnce)
			_, err := llm.Call(st.Context(t.Context()), question)
			require.ErrorIs(t, err, core.ErrPermanent)
			require.Equal(t, tc.class, record.Classify(err))
			require.Len(t, srv.Requests(), 1)
			var failure *openai.Error
			require.ErrorAs(t, err, &failure)
		})
	}
}

func TestUnsendableRequestsAreNotRetried(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	lineBreak := goopenai.DefaultConfig(secret + "\n")
	opts := func(opts ...actors.Option) []actors.Option { return append(opts, atOnce) }
	at := openai.WithBaseURL
	patient := &http.Client{Transport: &http.Transport{}} // on a slow machine, a handshake may take longer than the default client allows
	defer patient.CloseIdleConnections()
	for _, tc := range []struct {
		name  string
		opts  []actors.Option
		model string
		text  string
	}{
		{"key with a line break", opts(at("http://localhost/v1"), openai.WithAPIKey(secret+"\n")), "m", `invalid header field value for "Authorization"`},
		{"key with a line break, own client", opts(openai.WithClient(goopenai.NewClientWithConfig(lineBreak))), "m", `invalid header field value for "Authorization"`},
		{"no such scheme", opts(at("htp://localhost/v1")), "m", "unsupported protocol scheme"},
		{"no such scheme, own client", opts(openai.WithClient(newClient(t, "htp://localhost/v1"))), "m", "unsupported protocol scheme"},
		{"untrusted certificate", opts(at(untrusted.URL), openai.WithHTTPClient(patient)), "m", "certificate"},
		{"untrusted certificate, own client", opts(openai.WithClient(newClient(t, untrusted.URL))), "m", "certificate"},
		{"model of another API", opts(at("http://localhost/v1")), "text-davinci-003", "not supported"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := state.New()
			defer st.Close()
			_, err := openai.New(tc.model, tc.opts...).Call(st.Context(t.Context()), question)
			require.ErrorIs(t, err, core.ErrPermanent)
			require.ErrorContains(t, err, tc.text)
			require.NotContains(t, err.Error(), secret)
			require.Len(t, records(t, st, record.StatusStarted), 1)
		})
	}
}

func TestErrorContainsWhatTheServiceSaid(t *testing.T) {
	_, _, llm := setup(t, []openaitest.Step{openaitest.Failure(404, "There is no such model.")})
	_, err := llm.Call(t.Context(), question)
	var failure *openai.Error
	require.ErrorAs(t, err, &failure)
	var original *goopenai.APIError
	require.ErrorAs(t, err, &original)
	require.Equal(t, original, failure.Unwrap())
	require.Equal(t, []any{404, "invalid_request_error", "model_not_found", "There is no such model.", "req_1"},
		[]any{failure.Status, failure.Type, failure.Code, failure.Message, failure.RequestID})
	require.EqualError(t, failure, "openai: status 404, type invalid_request_error, code model_not_found, request req_1: There is no such model.")
	status, ok := record.HTTPStatus(err)
	require.True(t, ok)
	require.Equal(t, 404, status)
}

func TestABodyOfAnotherFormIsShortened(t *testing.T) {
	_, _, llm := setup(t, []openaitest.Step{openaitest.Raw(400, "<p>"+strings.Repeat("é ", 1000))})
	_, err := llm.Call(t.Context(), question)
	var failure *openai.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, "<p>"+strings.Repeat("é ", 98)+"…", failure.Message)
	var original *goopenai.RequestError
	require.ErrorAs(t, err, &original)
	require.Len(t, original.Body, 3+3*1000)
}

func TestTheKeyIsNotShown(t *testing.T) {
	refuse := func(body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(401)
			fmt.Fprintf(w, body, r.Header.Get("Authorization"), r.Header.Get("Api-Key"))
		})
	}
	for _, tc := range []struct {
		name, body   string
		azure, http2 bool
	}{
		{"API", `{"error":{"message":"no such key: %s%s","type":"t","code":"invalid_api_key"}}`, false, false},
		{"HTTP/2", `{"error":{"message":"no such key: %s%s","type":"t","code":"invalid_api_key"}}`, false, true},
		{"half an error", `{"error":{"message":"no such key: %s%s","type":5}}`, false, false},
		{"gateway", `<p>no such key: %s%s</p>`, false, false},
		{"Azure", `{"error":{"message":"no such key: %s%s","code":"401"}}`, true, false},
	} {
		for _, external := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/foreign=%v", tc.name, external), func(t *testing.T) {
				srv := httptest.NewUnstartedServer(refuse(tc.body))
				srv.EnableHTTP2 = tc.http2
				srv.StartTLS()
				defer srv.Close()
				model := openai.Model{Name: "gpt-4o-mini", APIKey: secret, BaseURL: srv.URL, HTTPClient: srv.Client()}
				config := goopenai.DefaultConfig(secret)
				if tc.azure {
					model.AzureAPIVersion = "2024-10-21"
					config = goopenai.DefaultAzureConfig(secret, "")
				}
				if external {
					config.BaseURL, config.HTTPClient = srv.URL, srv.Client()
					model = openai.Model{Name: "gpt-4o-mini", Client: goopenai.NewClientWithConfig(config)}
				}
				st := state.New()
				defer st.Close()

				_, err := model.LLM().Call(st.Context(t.Context()), question)
				require.ErrorContains(t, err, "[redacted]")
				for e := err; e != nil; e = errors.Unwrap(e) {
					require.NotContains(t, fmt.Sprintf("%v %+v", e, e), secret)
				}
				wire, err := json.Marshal(testkit.Records(t, st))
				require.NoError(t, err)
				require.NotContains(t, string(wire), secret)
				require.Len(t, records(t, st, record.StatusStarted), 1)
			})
		}
	}
}

func TestAPlaceholderForAKeyIsNotCutOutOfWords(t *testing.T) {
	srv := openaitest.New(t, openaitest.Failure(400, "none of the models is one"))
	_, err := openai.New("m", openai.WithBaseURL(srv.URL()), openai.WithAPIKey("none")).Call(t.Context(), question)
	require.ErrorContains(t, err, "none of the models is one")
}

func TestRetryAfterIsTheDelayBeforeTheNextAttempt(t *testing.T) {
	for _, tc := range []struct {
		name string
		step openaitest.Step
		want time.Duration
	}{
		{"seconds", openaitest.RateLimited(time.Second), time.Second},
		{"milliseconds", openaitest.RateLimited(70 * time.Millisecond), 70 * time.Millisecond},
		{"fraction", openaitest.Failure(503, "busy").WithHeader("Retry-After", "0.05"), 50 * time.Millisecond},
		{"body of another form", openaitest.Raw(503, "busy").WithHeader("Retry-After-Ms", "20"), 20 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv, st, llm := setup(t, []openaitest.Step{tc.step, openaitest.Text("Fine.")}, atOnce)
			_, err := llm.Call(st.Context(t.Context()), question)
			require.NoError(t, err)
			for _, rec := range append(records(t, st, record.StatusFailed), records(t, st, record.StatusRetrying)...) {
				require.Equal(t, tc.want, rec.Delay)
				require.Equal(t, record.SourceServer, rec.DelaySource)
			}
			requests := srv.Requests()
			require.GreaterOrEqual(t, requests[1].At.Sub(requests[0].At), tc.want)
		})
	}
}

// In a bubble, the clock advances when all goroutines are waiting, so an hour takes no time.
func TestRetryAfterOfAnHourIsWaitedFor(t *testing.T) {
	for name, value := range map[string]func() string{
		"seconds": func() string { return "3600" },
		"date":    func() string { return time.Now().Add(time.Hour).UTC().Format(http.TimeFormat) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []time.Time
				client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					asked = append(asked, time.Now())
					if len(asked) == 1 {
						return reply(r, 429, `{"error":{"message":"limit"}}`, "Retry-After", value()), nil
					}
					return reply(r, 200, `{"choices":[{"message":{"content":"Fine."}}]}`, "", ""), nil
				})}
				llm := openai.New("gpt-4o-mini", openai.WithBaseURL("http://service/v1"), openai.WithHTTPClient(client), actors.WithRetry(core.RetryConfig{MaxRetryAfter: 2 * time.Hour}))
				st := state.New()
				defer st.Close()
				_, err := llm.Call(st.Context(t.Context()), question)
				require.NoError(t, err)
				require.Equal(t, time.Hour, asked[1].Sub(asked[0]))
				retrying := records(t, st, record.StatusRetrying)
				require.Equal(t, time.Hour, retrying[0].Delay)
				require.Equal(t, record.SourceServer, retrying[0].DelaySource)
			})
		})
	}
}

func reply(r *http.Request, status int, body, header, value string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
	if header != "" {
		resp.Header.Set(header, value)
	}
	return resp
}

func TestARetryAfterThatIsTooLongFailsAtOnce(t *testing.T) {
	_, st, llm := setup(t, []openaitest.Step{openaitest.RateLimited(time.Hour)})
	_, err := llm.Call(st.Context(t.Context()), question)
	require.ErrorIs(t, err, core.ErrRetryAfterTooLong)
	after, ok := core.RetryAfter(err)
	require.True(t, ok)
	require.Equal(t, time.Hour, after)
}

// Services use HTTP/2, and net/http has no error types for its failures.
func TestABrokenHTTP2StreamIsRetried(t *testing.T) {
	for _, tc := range []struct {
		name  string
		begin func(w http.ResponseWriter)
	}{
		{"before the reply", func(http.ResponseWriter) {}},
		{"in the reply", func(w http.ResponseWriter) { fmt.Fprint(w, `{"choices":`); w.(http.Flusher).Flush() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var asked atomic.Int64
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) == 1 {
					tc.begin(w)
					panic(http.ErrAbortHandler)
				}
				fmt.Fprintf(w, `{"choices":[{"message":{"content":%q}}]}`, r.Proto)
			}))
			srv.EnableHTTP2 = true
			srv.StartTLS()
			defer srv.Close()
			st := state.New()
			defer st.Close()
			got, err := openai.New("m", openai.WithBaseURL(srv.URL), openai.WithHTTPClient(srv.Client()), atOnce).Call(st.Context(t.Context()), question)
			require.NoError(t, err)
			require.Equal(t, "HTTP/2.0", got.Message.Text)
			require.Equal(t, record.ClassConnection, records(t, st, record.StatusFailed)[0].Class)
			require.Len(t, records(t, st, record.StatusStarted), 2)
			require.EqualValues(t, 2, asked.Load())
		})
	}
}

// Retry-After depends on this behavior, which go-openai does not guarantee.
func TestGoOpenAIReturnsTheHeadersOfAFailure(t *testing.T) {
	for _, step := range []openaitest.Step{
		openaitest.RateLimited(time.Second),
		openaitest.Raw(503, "busy").WithHeader("Retry-After", "1"),
		openaitest.Raw(200, `{"choices":[{]}`).WithHeader("Retry-After", "1"),
	} {
		t.Run(step.String(), func(t *testing.T) {
			srv := openaitest.New(t, step)
			resp, err := newClient(t, srv.URL()).CreateChatCompletion(t.Context(), goopenai.ChatCompletionRequest{
				Model: "gpt-4o-mini", Messages: []goopenai.ChatCompletionMessage{{Role: "user", Content: "Hi"}},
			})
			require.Error(t, err)
			require.Equal(t, "1", resp.Header().Get("Retry-After"))
		})
	}
}

// untilFine retries without limit, for tests in which several attempts may time out on
// a busy machine.
var untilFine = actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay, MaxAttempts: core.Unlimited})

func TestAnAttemptThatTakesTooLongIsRetried(t *testing.T) {
	_, st, llm := setup(t, []openaitest.Step{openaitest.Stall(), openaitest.Forever(openaitest.Text("Fine."))},
		untilFine, actors.WithAttemptTimeout(500*time.Millisecond))
	_, err := llm.Call(st.Context(t.Context()), question)
	require.NoError(t, err)
	require.Equal(t, record.ClassTimeout, records(t, st, record.StatusFailed)[0].Class)
	require.Zero(t, st.Report().Abandoned, "the request must end with its attempt")
}

func TestATimeoutOfTheHTTPClientIsRetried(t *testing.T) {
	srv := openaitest.New(t, openaitest.Stall(), openaitest.Forever(openaitest.Text("Fine.")))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 500 * time.Millisecond}
	st := state.New()
	defer st.Close()
	_, err := openai.New("m", openai.WithBaseURL(srv.URL()), openai.WithHTTPClient(client), untilFine).Call(st.Context(t.Context()), question)
	require.NoError(t, err)
	require.Equal(t, record.ClassTimeout, records(t, st, record.StatusFailed)[0].Class)
}

func TestAnInterruptEndsARequestAtOnce(t *testing.T) {
	arrived := make(chan struct{})
	srv, st, llm := setup(t, []openaitest.Step{openaitest.Respond(func(openaitest.Request) openaitest.Step {
		close(arrived)
		return openaitest.Stall()
	})}, atOnce)
	done := make(chan error, 1)
	ctx := st.Context(t.Context())
	go func() {
		_, err := llm.Call(ctx, question)
		done <- err
	}()
	<-arrived
	require.True(t, st.Interrupt(snapshot.Stop{By: "me", Message: "Ctrl-C"}))
	select {
	case err := <-done:
		require.ErrorIs(t, err, core.ErrInterrupted)
	case <-time.After(time.Minute):
		t.Fatal("the request should have ended")
	}
	require.Len(t, records(t, st, record.StatusInterrupted), 1)
	require.Empty(t, records(t, st, record.StatusFailed))
	require.NoError(t, srv.Close(), "the server saw the client leave")
}
