package service

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// served serves with the options until stop is called or the test ends.
func served(t *testing.T, o Options, register func(*runner.Runner) error) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	o.Addr, o.Ready = "127.0.0.1:0", func(url string) { ready <- url }
	if o.Store == nil {
		o.Store = memstore.New()
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		defer close(ready)
		assert.NoError(t, Serve(ctx, o, register))
	})
	stop = func() {
		cancel()
		serving.Wait()
	}
	t.Cleanup(stop)
	url, ok := <-ready
	require.True(t, ok)
	return url, stop
}

// fetch makes a request, with the token if it is not empty, and returns the response and its body.
func fetch(t *testing.T, client *http.Client, method, url, token, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(data)
}

func TestTokensOfAFileAreAdmitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	const control, read = "a-token-of-16-bytes-or-more", "another-token-of-16-bytes"
	require.NoError(t, os.WriteFile(path, []byte("# who may\n\nann  "+control+" control\nboard "+read+"\tread\n"), 0o600))
	authorize, err := Tokens(path)
	require.NoError(t, err)
	var o Options
	o.Streamer.Authorize = authorize
	url, _ := served(t, o, register)
	start := `{"program":"ask","run_id":"a","input":{"text":""}}`
	for token, want := range map[string]int{control: 201, read: 403, "": 401, "a-token-of-16-bytes-or-mor": 401} {
		resp, _ := fetch(t, http.DefaultClient, http.MethodPost, url+"api/runs", token, start)
		assert.Equal(t, want, resp.StatusCode, token)
		if want == 401 {
			assert.Contains(t, resp.Header.Get("WWW-Authenticate"), "Basic realm=")
		}
	}
	for _, path := range []string{"api/runs", "metrics", "debug/vars"} {
		resp, _ := fetch(t, http.DefaultClient, http.MethodGet, url+path, read, "")
		assert.Equal(t, 200, resp.StatusCode, path)
		resp, _ = fetch(t, http.DefaultClient, http.MethodGet, url+path, "", "")
		assert.Equal(t, 401, resp.StatusCode, path)
	}
	for _, path := range []string{"healthz", "readyz"} {
		resp, _ := fetch(t, http.DefaultClient, http.MethodGet, url+path, "", "")
		assert.Equal(t, 200, resp.StatusCode, path)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"api/runs", nil)
	require.NoError(t, err)
	req.SetBasicAuth("anybody", read) // as a browser does
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 200, resp.StatusCode)
	until := time.After(3 * time.Minute)
	for { // the run is cancelled on behalf of the principal
		resp, body := fetch(t, http.DefaultClient, http.MethodPost, url+"api/runs/a/cancel", control, `{}`)
		if resp.StatusCode == 200 {
			break
		}
		select {
		case <-until:
			t.Fatal(body)
		default:
		}
	}
	_, body := fetch(t, http.DefaultClient, http.MethodGet, url+"api/runs/a", read, "")
	assert.Contains(t, body, `"by":"ann"`)
}

func TestFilesOfTokensThatAreWrongAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for text, want := range map[string]string{
		"":                           "the file contains no tokens",
		"# nobody":                   "the file contains no tokens",
		"ann 0123456789abcdef":       "line 1: want a principal, a token, and control or read",
		"ann 0123456789abcdef admin": "line 1: want a principal, a token, and control or read",
		"\nann short control":        "line 2: the token of ann has 5 bytes; want 16 or more",
		"a 0123456789abcdef read\nb 0123456789abcdef control": "line 2: a and b have the same token",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Tokens(path)
		assert.ErrorContains(t, err, want, text)
		assert.NotContains(t, err.Error(), "0123456789abcdef control", "no token is shown")
	}
}

// certificate writes a certificate and its key to files. The certificate is signed by issuer, or
// self-signed if issuer is nil.
func certificate(t *testing.T, dir, name string, issuer *tls.Certificate) (cert, key string, pair tls.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: issuer == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, any(private)
	if issuer != nil {
		parent, err = x509.ParseCertificate(issuer.Certificate[0])
		require.NoError(t, err)
		signer = issuer.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &private.PublicKey, signer)
	require.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), 0o600))
	pair, err = tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	return cert, key, pair
}

// TestClientsAreAdmittedByTheirCertificates: a client without a certificate, or with a certificate
// from another issuer, is refused.
func TestClientsAreAdmittedByTheirCertificates(t *testing.T) {
	dir := t.TempDir()
	ca, _, issuer := certificate(t, dir, "ca", nil)
	cert, key, _ := certificate(t, dir, "service", &issuer)
	_, _, ann := certificate(t, dir, "ann", &issuer)
	_, _, stranger := certificate(t, dir, "stranger", nil)
	_, _, nameless := certificate(t, dir, "", &issuer)
	var out bytes.Buffer
	o, err := parse([]string{"agents", "-tls-cert", cert, "-tls-key", key, "-client-ca", ca}, Options{}, func(string) (string, bool) { return "", false }, &out)
	require.NoError(t, err, out.String())
	url, _ := served(t, o.Options, register)
	require.True(t, strings.HasPrefix(url, "https://"))
	pool, err := readPool(ca)
	require.NoError(t, err)
	with := func(certs ...tls.Certificate) *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs}, ForceAttemptHTTP2: true}}
	}
	resp, body := fetch(t, with(ann), http.MethodPost, url+"api/runs", "", `{"program":"echo","run_id":"e","input":{"text":"hi"}}`)
	assert.Equal(t, 201, resp.StatusCode, body)
	assert.Equal(t, 2, resp.ProtoMajor)
	resp, _ = fetch(t, with(nameless), http.MethodGet, url+"api/runs", "", "")
	assert.Equal(t, 403, resp.StatusCode)
	for _, client := range []*http.Client{with(), with(stranger), http.DefaultClient} {
		_, err := client.Get(url + "healthz")
		assert.Error(t, err)
	}
}

// inPrometheus matches a line of the Prometheus text format.
var inPrometheus = regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+="[a-z]+"\})? [0-9.e+]+)$`)

func TestMetricsAreInTheFormatOfPrometheus(t *testing.T) {
	url, _ := served(t, Options{}, register)
	status, body := do(t, "POST", url+"api/runs", `{"program":"echo","run_id":"e","input":{"text":"hi"}}`)
	require.Equal(t, 201, status, body)
	until(t, url, "e", "run_completed")
	var text string
	for !strings.Contains(text, `reprise_runs_closed_total{status="completed"} 1`) { // the run is counted after its last record
		require.NoError(t, t.Context().Err())
		resp, body := fetch(t, http.DefaultClient, http.MethodGet, url+"metrics", "", "")
		require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", resp.Header.Get("Content-Type"))
		text = body
	}
	described := make(map[string]bool)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		require.Regexp(t, inPrometheus, line)
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(name, " ")
			require.False(t, described[name], "%s is described more than once", name)
			require.Equal(t, kind == "counter", strings.HasSuffix(name, "_total"), name)
			described[name] = true
		} else if !strings.HasPrefix(line, "#") {
			name, _, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, "{")
			require.True(t, described[name], line)
		}
	}
	assert.Contains(t, text, "\nreprise_runs_started_total 1\n")
	_, body = do(t, "GET", url+"debug/vars", "")
	var vars struct{ Reprise runner.Stats }
	require.NoError(t, json.Unmarshal([]byte(body), &vars), body)
	assert.EqualValues(t, 1, vars.Reprise.Started)
}

func TestWhatRunsDoIsLoggedWithLevels(t *testing.T) {
	var mu sync.Mutex
	var out bytes.Buffer
	log, err := newLog(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}), "info", "json")
	require.NoError(t, err)
	url, stop := served(t, Options{Log: log, Runner: runner.Options{Grace: -1}}, register)
	for _, program := range []string{"echo", "wait"} {
		status, body := do(t, "POST", url+"api/runs", `{"program":"`+program+`","run_id":"`+program+`","input":{"text":"hi"}}`)
		require.Equal(t, 201, status, body)
		until(t, url, program, "started")
	}
	until(t, url, "echo", "run_completed")
	stop()
	var lines []string
	for line := range strings.Lines(out.String()) {
		var l struct{ Level, Msg, Run, Status, Reason string }
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		lines = append(lines, strings.Join([]string{l.Level, l.Msg, l.Run, l.Status, l.Reason}, "|"))
	}
	assert.ElementsMatch(t, []string{
		"INFO|run queued|echo|queued|", "INFO|run queued|wait|queued|",
		"INFO|run closed|echo|completed|", "INFO|stopping|||", "INFO|run closed|wait|interrupted|shutdown", "INFO|stopped|||",
	}, lines)
	assert.Equal(t, "INFO|stopped|||", lines[len(lines)-1])
	for e, want := range map[*runner.Notice]slog.Level{
		{Type: runner.NoticeTrouble, Err: errors.New("no")}: slog.LevelError,
		{Type: runner.NoticeCrashed}:                        slog.LevelWarn,
		{Type: runner.NoticeClosed, Err: errors.New("no")}:  slog.LevelWarn,
		{Type: runner.NoticeOpened}:                         slog.LevelDebug,
	} {
		assert.Equal(t, want, levelOf(e))
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestTerminatedServiceIsNotReadyStartsNothingAndEndsItsRuns: until it has stopped, the service
// still serves requests.
func TestTerminatedServiceIsNotReadyStartsNothingAndEndsItsRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	entered, gate := make(chan struct{}), make(chan struct{})
	store := memstore.New()
	o := Options{Store: store, Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }, Runner: runner.Options{Grace: time.Hour}}
	var serving sync.WaitGroup
	serving.Go(func() {
		assert.NoError(t, Serve(ctx, o, func(r *runner.Runner) error {
			runner.Register(r, decorators.Agent("slow", "", func(context.Context, ticket) (string, error) {
				close(entered)
				<-gate
				return "done", nil
			}))
			return nil
		}))
	})
	url := <-ready
	start := func(id string) (*http.Response, string) {
		return fetch(t, http.DefaultClient, http.MethodPost, url+"api/runs", "", `{"program":"slow","run_id":"`+id+`","input":{"text":""}}`)
	}
	resp, body := start("a")
	require.Equal(t, 201, resp.StatusCode, body)
	<-entered
	resp, _ = fetch(t, http.DefaultClient, http.MethodGet, url+"readyz", "", "")
	require.Equal(t, 200, resp.StatusCode)
	cancel()
	for resp.StatusCode == 200 { // the runner takes some time to notice the end
		resp, body = fetch(t, http.DefaultClient, http.MethodGet, url+"readyz", "", "")
	}
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, "not ready\n", body)
	resp, body = start("b")
	assert.Equal(t, 503, resp.StatusCode)
	assert.Contains(t, body, "is stopping")
	assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	for _, path := range []string{"healthz", "api/runs/a", "metrics"} {
		resp, _ = fetch(t, http.DefaultClient, http.MethodGet, url+path, "", "")
		assert.Equal(t, 200, resp.StatusCode, path)
	}
	close(gate)
	serving.Wait()
	info, err := store.Info(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusCompleted, info.Status)
	_, err = store.Info(t.Context(), "b")
	assert.ErrorIs(t, err, snapshot.ErrNotFound)
}

// TestThousandsOfStartsAtOnceAreBounded uses real connections. Starts beyond MaxQueued are
// told to try again later, and no other start is lost.
func TestThousandsOfStartsAtOnceAreBounded(t *testing.T) {
	const starts, queued, limit = 4000, 1000, 4
	gate := make(chan struct{})
	var ran atomic.Int64
	store := memstore.New()
	url, _ := served(t, Options{Store: store, Runner: runner.Options{Limit: limit, MaxQueued: queued}}, func(r *runner.Runner) error {
		runner.Register(r, decorators.Agent("wait", "", func(context.Context, ticket) (string, error) {
			<-gate
			ran.Add(1)
			return "", nil
		}))
		return nil
	})
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64}}
	var created, refused atomic.Int64
	var starting sync.WaitGroup
	for i := range starts {
		starting.Go(func() {
			resp, body := fetch(t, client, http.MethodPost, url+"api/runs", "", fmt.Sprintf(`{"program":"wait","run_id":"r%d","input":{"text":""}}`, i))
			switch resp.StatusCode {
			case http.StatusCreated:
				created.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
				assert.NotEmpty(t, resp.Header.Get("Retry-After"))
			default:
				assert.Fail(t, body)
			}
		})
	}
	starting.Wait()
	assert.EqualValues(t, starts, created.Load()+refused.Load())
	assert.GreaterOrEqual(t, created.Load(), int64(queued))
	assert.LessOrEqual(t, created.Load(), int64(queued+limit))
	close(gate)
	for event, err := range store.Watch(t.Context(), snapshot.WatchOptions{}) {
		require.NoError(t, err)
		_ = event
		page, err := store.List(t.Context(), snapshot.Filter{Status: []snapshot.Status{snapshot.StatusCompleted}})
		require.NoError(t, err)
		if len(page.Runs) == int(created.Load()) {
			break
		}
	}
	assert.Equal(t, created.Load(), ran.Load())
	page, err := store.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	assert.Len(t, page.Runs, int(created.Load()))
}
