package recordings_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	// These are imported to keep the modules in go.mod; their packages are not used.
	_ "charm.land/fantasy/jsonrepair"
	_ "github.com/maruel/genai/scoreboard"
	_ "github.com/tmc/langchaingo/jsonschema"

	"github.com/reprise-go/reprise/internal/testkit"
)

// modules are the paths of the modules whose recordings are played.
var modules = []string{"charm.land/fantasy", "github.com/maruel/genai", "github.com/tmc/langchaingo"}

// every determines the files that are read: all of them or, with the race detector, every fourth
// one.
var every = 4 / int(testkit.Seeds(4))

// A recording is one reply of a service.
type recording struct {
	file    string // contains the module and the number of the reply
	service string // the host
	api     string // "chat" or "responses"
	status  int
	header  http.Header
	body    []byte
}

func (r *recording) isStream() bool {
	return r.status < 400 && (strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") ||
		bytes.HasPrefix(r.body, []byte("data:")) || bytes.HasPrefix(r.body, []byte("event:")))
}

// recordings returns the replies in the modules' files to requests for chat completions and
// responses.
func recordings(t *testing.T) (all []recording) {
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-m", "-f", "{{.Dir}}"}, modules...)...).Output()
	require.NoError(t, err)
	files := 0
	for i, dir := range strings.Fields(string(out)) {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.Contains(path, "testdata") {
				return err
			}
			read := map[string]func([]byte) ([]recording, error){".yaml": readCassette, ".httprr": readTrace}[filepath.Ext(path)]
			if read == nil {
				return nil
			}
			if files++; files%every != 0 {
				return nil
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found, err := read(data)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			for n := range found {
				found[n].file = fmt.Sprintf("%s%s#%d", modules[i], strings.TrimPrefix(path, dir), n)
			}
			all = append(all, found...)
			return nil
		})
		require.NoError(t, err)
	}
	return all
}

// locate sets service and api according to the request's URL. It reports whether the tests here
// cover the API.
func (r *recording) locate(method, address string) bool {
	u, err := url.Parse(address)
	if err != nil || method != http.MethodPost {
		return false
	}
	r.service = u.Host
	switch {
	case strings.HasSuffix(u.Path, "/chat/completions"), r.service == "text.pollinations.ai" && u.Path == "/openai":
		r.api = "chat"
	case strings.HasSuffix(u.Path, "/responses"):
		r.api = "responses"
	}
	return r.api != ""
}

// readCassette reads the replies in a cassette of go-vcr.
func readCassette(data []byte) (out []recording, err error) {
	if !bytes.Contains(data, []byte("/chat/completions")) && !bytes.Contains(data, []byte("/responses")) && !bytes.Contains(data, []byte("pollinations.ai/openai")) {
		return nil, nil
	}
	var cassette struct {
		Interactions []struct {
			Request struct {
				URL    string `yaml:"url"`
				Method string `yaml:"method"`
			} `yaml:"request"`
			Response struct {
				Code    int         `yaml:"code"`
				Headers http.Header `yaml:"headers"`
				Body    string      `yaml:"body"`
			} `yaml:"response"`
		} `yaml:"interactions"`
	}
	if err := yaml.Unmarshal(withoutRequestBodies(data), &cassette); err != nil {
		return nil, err
	}
	for _, i := range cassette.Interactions {
		r := recording{status: i.Response.Code, header: i.Response.Headers, body: []byte(i.Response.Body)}
		if r.locate(i.Request.Method, i.Request.URL) {
			out = append(out, r)
		}
	}
	return out, nil
}

// withoutRequestBodies removes the bodies of requests. Most of them are images, which take a long
// time to parse.
func withoutRequestBodies(data []byte) []byte {
	var out bytes.Buffer
	inRequest, inBody, bodyIndent := false, false, 0
	for line := range bytes.Lines(data) {
		text := bytes.TrimLeft(line, " ")
		indent := len(line) - len(text)
		switch {
		case inBody && (indent > bodyIndent || len(bytes.TrimSpace(line)) == 0):
			continue
		case bytes.Equal(bytes.TrimSpace(line), []byte("request:")):
			inRequest, bodyIndent = true, 0
		case bytes.Equal(bytes.TrimSpace(line), []byte("response:")):
			inRequest = false
		}
		if inBody = inRequest && bytes.HasPrefix(text, []byte("body:")); inBody {
			bodyIndent = indent
			continue
		}
		out.Write(line)
	}
	return out.Bytes()
}

// readTrace reads a trace of httprr. It consists of a header line and pairs of requests and
// responses. Before each of these pairs is a line with the lengths.
func readTrace(data []byte) (out []recording, err error) {
	in := bufio.NewReader(bytes.NewReader(data))
	if _, err := in.ReadString('\n'); err != nil {
		return nil, err
	}
	for {
		var asked, replied int
		if _, err := fmt.Fscanf(in, "%d %d\n", &asked, &replied); err != nil {
			return out, nil //nolint:nilerr // the end
		}
		both := make([]byte, asked+replied)
		if _, err := io.ReadFull(in, both); err != nil {
			return nil, err
		}
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(both[:asked])))
		if err != nil {
			return nil, err
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(both[asked:])), req)
		if err != nil {
			return nil, err
		}
		r := recording{status: resp.StatusCode, header: resp.Header}
		if r.body, err = io.ReadAll(resp.Body); err != nil {
			return nil, err
		}
		if r.locate(req.Method, req.URL.String()) {
			out = append(out, r)
		}
	}
}
