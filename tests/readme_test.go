package tests

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/state"
)

// The code between these two marks is the program in docs/features.md.

type City struct {
	Name string `json:"name"`
}

// features begins
func ask(ctx context.Context, llm actors.LLM, question string) (string, error) {
	weather := decorators.Tool("get_weather", "Current weather in a city.",
		func(ctx context.Context, in City) (string, error) { return fetchWeather(ctx, in.Name) },
		actors.WithRetry(core.RetryConfig{MaxAttempts: 5, InitialDelay: 2 * time.Millisecond}),
		actors.WithAttemptTimeout(10*time.Second),
	).Require(func(_ context.Context, in City) error {
		if in.Name == "" {
			return fmt.Errorf("name the city")
		}
		return nil
	})
	assistant := actors.NewAgent("assistant", llm, actors.WithTools(weather))

	st := state.New(state.WithPublisher(printer.New(os.Stderr))) // one run, each attempt printed
	defer st.Close()
	answer, err := assistant.Call(st.Context(ctx), actors.Ask(question))
	return answer.Text, err
}

// features ends

var requests atomic.Int64

// fetchWeather fails twice, as an overloaded service would.
func fetchWeather(_ context.Context, city string) (string, error) {
	if requests.Add(1) <= 2 {
		return "", unavailable{}
	}
	return "4 degrees in " + city, nil
}

type unavailable struct{}

func (unavailable) Error() string   { return http.StatusText(http.StatusServiceUnavailable) }
func (unavailable) StatusCode() int { return http.StatusServiceUnavailable }

func Example() {
	requests.Store(0)
	server, err := openaitest.Start(
		openaitest.ToolCalls(openaitest.Call("get_weather", City{Name: "Oslo"})),
		openaitest.Text("It is 4 degrees in Oslo.").Expect(openaitest.HasToolResult("get_weather", "4 degrees in Oslo")),
	)
	if err != nil {
		panic(err)
	}
	llm := openai.New("gpt-4o-mini", openai.WithBaseURL(server.URL()))

	answer, err := ask(context.Background(), llm, "How warm is it in Oslo?")
	fmt.Println(answer, err)
	fmt.Println("requests to the weather service:", requests.Load())
	fmt.Println(server.Close())
	// Output:
	// It is 4 degrees in Oslo. <nil>
	// requests to the weather service: 3
	// <nil>
}

func TestFeaturesShowTheProgramThatIsTested(t *testing.T) {
	source, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	_, program, _ := strings.Cut(string(source), "\n// features begins\n")
	program, _, found := strings.Cut(program, "\n// features ends\n")
	require.True(t, found)
	features, err := os.ReadFile("../docs/features.md")
	require.NoError(t, err)
	assert.Contains(t, string(features), "```go\n"+strings.TrimSpace(program)+"\n```", "docs/features.md shows another program")
}

// TestReadmeIsReadInFiveMinutes limits the length of the README, which is the first
// thing that users read.
func TestReadmeIsReadInFiveMinutes(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	assert.LessOrEqual(t, len(strings.Fields(string(readme))), 1200, "words")
}

// TestLinksOfTheDocumentationLeadSomewhere checks that links within the repository lead to existing
// files and headings.
func TestLinksOfTheDocumentationLeadSomewhere(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "examples/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob("../" + pattern)
		require.NoError(t, err)
		files = append(files, found...)
	}
	require.Contains(t, files, "../README.md")
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	link := regexp.MustCompile(`\]\(([^)#]*)#?([^)]*)\)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if strings.HasPrefix(found[1], "http://") || strings.HasPrefix(found[1], "https://") {
				continue
			}
			target := file
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(file), found[1])
			}
			_, err := os.Stat(target)
			if assert.NoError(t, err, "%s links to %s", file, found[1]) && found[2] != "" {
				assert.Contains(t, headings(t, target), found[2], "%s links to a missing heading of %s", file, target)
			}
		}
	}
}

// headings returns the anchors of the headings of a document.
func headings(t *testing.T, file string) []string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		name := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(found[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func TestEachExampleIsListed(t *testing.T) {
	list, err := os.ReadFile("../examples/README.md")
	require.NoError(t, err)
	entries, err := os.ReadDir("../examples")
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.IsDir() {
			assert.Contains(t, string(list), "\n| ["+entry.Name()+"](", "examples/README.md")
		}
	}
}

func TestHelloWorldIsTheFirstProgramOfTheReadmeAndSmall(t *testing.T) {
	program, err := os.ReadFile("../examples/hello/main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, first, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	first, _, _ = strings.Cut(first, "```")
	assert.Equal(t, string(program), first)
	assert.LessOrEqual(t, strings.Count(first, "\n"), 30, "lines")
	assert.LessOrEqual(t, strings.Count(first, "reprise-go/reprise/"), 4, "packages of Reprise")
}

// The program runs as for a user, with only environment variables as its configuration.
func TestHelloWorldRuns(t *testing.T) {
	server := openaitest.New(t,
		openaitest.ToolCalls(openaitest.Call("get_weather", City{Name: "Oslo"})),
		openaitest.Text("It is 4 °C.").Expect(openaitest.HasToolResult("get_weather", "4 °C in Oslo")),
	)
	cmd := exec.CommandContext(t.Context(), "go", "run", "../examples/hello")
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=test key", "OPENAI_BASE_URL="+server.URL())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "It is 4 °C.\n", string(out))
}
