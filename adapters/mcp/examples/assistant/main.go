// The program assistant is an agent that uses the tools of two MCP servers. One keeps notes; the
// program starts it as a command. The other serves the programs of a runner over HTTP. The example
// needs neither a key nor a network: the model is a script, and both servers are this same program.
//
// The notes server dies right after it has written the first note. The run cannot know whether the
// note was written, so it asks. The program checks the file and answers, and the run continues.
//
//	go run ./examples/assistant
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func main() {
	var err error
	if len(os.Args) == 3 && os.Args[1] == "notes" {
		err = serveNotes(context.Background(), os.Args[2])
	} else {
		err = run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type note struct {
	Text string `json:"text"`
}

// serveNotes serves MCP over standard input and output.
func serveNotes(ctx context.Context, dir string) error {
	s := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "write", Description: "Writes a note."}, func(_ context.Context, _ *sdk.CallToolRequest, in note) (*sdk.CallToolResult, any, error) {
		file := filepath.Join(dir, "notes")
		_, missing := os.Stat(file)
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, err
		}
		if _, err := fmt.Fprintln(f, in.Text); err != nil {
			return nil, nil, err
		}
		if missing != nil {
			os.Exit(1) // die once, before reporting that the note has been written
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "written"}}}, nil, f.Close()
	})
	return s.Run(ctx, &sdk.StdioTransport{})
}

// serveWeather serves a runner's program, and returns the URL.
func serveWeather(ctx context.Context) (url string, stop func() error, err error) {
	r, err := runner.New(memstore.New(), runner.Options{Grace: -1})
	if err != nil {
		return "", nil, err
	}
	type place struct {
		City string `json:"city"`
	}
	runner.Register(r, decorators.Tool("forecast", "Returns tomorrow's weather.", func(ctx context.Context, p place) (string, error) {
		return "sunny in " + p.City, core.Sleep(ctx, 10*time.Millisecond)
	}))
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, end := context.WithCancel(ctx)
	ended := make(chan error, 2)
	server := &http.Server{Handler: mcp.NewHandler(r, mcp.ServerOptions{}), ReadHeaderTimeout: time.Second}
	go func() { ended <- r.Serve(ctx) }()
	go func() { ended <- server.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() error {
		end()
		err := server.Close()
		for range 2 {
			if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
				err = errors.Join(err, e)
			}
		}
		return err
	}, nil
}

// script is the model. It asks for the weather, writes it down, and then ends.
func script(_ context.Context, r actors.Request) (actors.Response, error) {
	say := func(m actors.Message) (actors.Response, error) {
		m.Role = actors.RoleAssistant
		return actors.Response{Message: m}, nil
	}
	use := func(tool, arguments string) (actors.Response, error) {
		return say(actors.Message{ToolCalls: []actors.ToolCall{{ID: tool, Name: tool, Arguments: arguments}}})
	}
	switch last := r.Messages[len(r.Messages)-1]; last.ToolCallID {
	case "":
		return use("weather_forecast", `{"city":"Lisbon"}`)
	case "weather_forecast":
		return use("notes_write", fmt.Sprintf(`{"text":"tomorrow: %s"}`, last.Text))
	}
	return say(actors.Message{Text: "It is in your notes."})
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "assistant")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // this program's temporary directory
	url, stop, err := serveWeather(ctx)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	notes := mcp.Command("notes", exec.Command(self, "notes", dir), mcp.Options{})
	weather := mcp.HTTP("weather", url, mcp.Options{Trust: mcp.TrustHints})
	agent := actors.NewAgent("assistant", decorators.LLM("model", script), mcp.WithServers(notes, weather))

	store := memstore.New()
	answer, err := call(ctx, store, agent)
	for errors.Is(err, core.ErrAwaiting) {
		if err = look(ctx, store, dir); err == nil {
			answer, err = call(ctx, store, agent)
		}
	}
	if err == nil {
		fmt.Println(answer.Text)
	}
	return errors.Join(err, notes.Close(), weather.Close(), stop())
}

// call runs the agent in the run, or continues the run where it stopped.
func call(ctx context.Context, store *memstore.Store, agent actors.Agent[actors.Prompt, actors.Answer]) (actors.Answer, error) {
	st, err := state.Open(ctx, store, "weather-1")
	if err != nil {
		return actors.Answer{}, err
	}
	answer, err := agent.Call(st.Context(ctx), actors.Prompt{Text: "Note down tomorrow's weather in Lisbon."})
	return answer, errors.Join(err, st.Close())
}

// look reads the notes file and reports whether the note was written.
func look(ctx context.Context, store *memstore.Store, dir string) error {
	open, err := state.Questions(ctx, store, "weather-1")
	if err != nil {
		return err
	}
	for _, q := range open {
		fmt.Println("the run asks:", q.Text)
		written, err := os.ReadFile(filepath.Join(dir, "notes"))
		if err != nil {
			return err
		}
		fmt.Printf("the notes contain: %s", written)
		if err := state.Answer(ctx, store, "weather-1", q.ID, "example", state.InDoubtCompleted(actors.ToolOutput{Text: "written"})); err != nil {
			return err
		}
	}
	return nil
}
