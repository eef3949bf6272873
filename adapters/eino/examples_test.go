package eino_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// examples is the environment variable with the path of a checkout of
// github.com/cloudwego/eino-examples, which is not a module that can be downloaded by its
// name.
const examples = "REPRISE_EINO_EXAMPLES"

// changes are the changes to an example: its context is that of a run, its tools are
// durable, and packages that need an account or a network are replaced by
// testdata/examples, which makes its model durable.
var changes = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`func main\(\) \{`), "func main() {\n\tdefer stub.End()"},
	{regexp.MustCompile(`ctx := context\.Background\(\)`), "ctx := stub.Begin()"},
	{regexp.MustCompile(`(\s)Tools: +(.*),\n`), "${1}Tools: stub.Tools($2),\n"},
	{regexp.MustCompile(`(\w+ )?"github\.com/(cloudwego/eino-ext/.*|coze-dev/.*|cloudwego/eino-examples/devops/.*)"`), ""},
}

// names holds the names under which the examples import the replaced packages.
var names = map[string]string{"callbacks/cozeloop": "clc", "cozeloop-go": "cozeloop", "duckduckgo/v2": "duckduckgo", "model/ark": "ark", "model/openai": "openai", "visualize": "visualize"}

// changed returns the source of an example, changed so that it runs inside a run.
func changed(source string) string {
	const stub = `"github.com/cloudwego/eino-examples/stub"`
	for _, c := range changes {
		if c.to != "" {
			source = c.from.ReplaceAllString(source, c.to)
			continue
		}
		source = c.from.ReplaceAllStringFunc(source, func(path string) string {
			for suffix, name := range names {
				if strings.HasSuffix(path, suffix+`"`) {
					return name + " " + stub
				}
			}
			return path
		})
	}
	return strings.Replace(source, "import (", "import (\n\t"+stub+"\n", 1)
}

// Eino's examples run inside runs. A process that opens the run again calls neither the model nor
// the tools.
func TestExamplesOfEinoRunInsideRuns(t *testing.T) {
	checkout := os.Getenv(examples)
	if checkout == "" {
		t.Skip("skipped: set " + examples + " to a checkout of github.com/cloudwego/eino-examples")
	}
	dir := t.TempDir()
	here, err := os.Getwd()
	require.NoError(t, err)
	sums, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	ours := strings.NewReplacer("module github.com/reprise-go/reprise/adapters/eino", "module github.com/cloudwego/eino-examples\n\nrequire github.com/reprise-go/reprise/adapters/eino v0.0.0-00010101000000-000000000000\n\nreplace github.com/reprise-go/reprise/adapters/eino => "+here,
		"=> ../../", "=> "+filepath.Dir(filepath.Dir(here)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(ours.Replace(string(mod))), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "stub"), os.DirFS("testdata/examples")))
	for _, of := range []string{"internal/logs", "internal/gptr", "flow/agent/react/tools"} {
		require.NoError(t, os.CopyFS(filepath.Join(dir, of), os.DirFS(filepath.Join(checkout, of))))
	}
	call := func(id, name, arguments string) string {
		return `{"id":"` + id + `","function":{"name":"` + name + `","arguments":` + arguments + `}}`
	}
	for example, c := range map[string]struct {
		script string
		ledger []string
		want   string // what the example prints at the end
	}{
		"flow/agent/react/react.go": {
			script: `[{"role":"assistant","tool_calls":[` + call("1", "query_restaurants", `"{\"location\":\"北京\",\"topn\":2}"`) + `]},` +
				`{"role":"assistant","tool_calls":[` + call("2", "query_dishes", `"{\"restaurant_id\":\"1001\",\"topn\":2}"`) + "," + call("3", "query_dishes", `"{\"restaurant_id\":\"1002\",\"topn\":2}"`) + `]},` +
				`{"role":"assistant","content":"try both"}]`,
			ledger: []string{"model 1", "tool query_restaurants", "model 2", "tool query_dishes", "tool query_dishes", "model 3"},
			want:   "try both",
		},
		"quickstart/todoagent/main.go": {
			script: `[{"role":"assistant","tool_calls":[` + call("1", "add_todo", `"{\"content\":\"learn eino\"}"`) + "," + call("2", "duckduckgo_text_search", `"{\"query\":\"eino\"}"`) + `]}]`,
			ledger: []string{"model 1", "tool add_todo", "tool duckduckgo_text_search"},
			want:   "found eino",
		},
		"compose/graph/tool_call_once/tool_call_once.go": {
			script: `[{"role":"assistant","tool_calls":[` + call("1", "user_info", `"{\"name\":\"zhangsan\",\"email\":\"zhangsan@bytedance.com\"}"`) + `]}]`,
			ledger: []string{"model 1", "tool user_info"},
			want:   "Awesome company",
		},
	} {
		t.Run(filepath.Base(filepath.Dir(example)), func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join(checkout, example))
			require.NoError(t, err)
			in := filepath.Join(dir, example)
			require.NoError(t, os.MkdirAll(filepath.Dir(in), 0o700))
			require.NoError(t, os.WriteFile(in, []byte(changed(string(source))), 0o600))
			program, ledger, runs := filepath.Join(t.TempDir(), "example"), filepath.Join(t.TempDir(), "ledger"), t.TempDir()
			build := exec.Command("go", "build", "-mod=mod", "-o", program, "./"+filepath.Dir(example))
			build.Dir = dir
			out, err := build.CombinedOutput()
			require.NoError(t, err, "%s", out)
			for range 2 { // the second time, as after a crash
				cmd := exec.Command(program)
				cmd.Env = append(os.Environ(), "RUN_DIR="+runs, "RUN_LEDGER="+ledger, "SCRIPT="+c.script)
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
				assert.Contains(t, string(out), c.want)
				done, err := os.ReadFile(ledger)
				require.NoError(t, err)
				assert.ElementsMatch(t, c.ledger, strings.Split(strings.TrimSpace(string(done)), "\n"), "recorded calls are not made again")
			}
		})
	}
}
