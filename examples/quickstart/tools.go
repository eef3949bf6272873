package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
)

//go:embed cities.txt
var sampleCities []byte

// A workspace is the only directory that the agent may read.
type workspace struct {
	root *os.Root
	name string // name of the file to read
	temp string // directory that Close removes; empty if the file is the user's own
}

// openWorkspace opens the directory that contains file. If file is empty, it creates a directory
// that contains the sample file.
func openWorkspace(file string) (*workspace, error) {
	w := new(workspace)
	if file == "" {
		dir, err := os.MkdirTemp("", "quickstart-")
		if err != nil {
			return nil, err
		}
		w.temp, file = dir, filepath.Join(dir, "cities.txt")
		if err := os.WriteFile(file, sampleCities, 0o600); err != nil {
			return nil, err
		}
	}
	var err error
	w.name = filepath.Base(file)
	if w.root, err = os.OpenRoot(filepath.Dir(file)); err != nil {
		return nil, fmt.Errorf("-file: %w", err)
	}
	if _, err := w.root.Stat(w.name); err != nil {
		return nil, fmt.Errorf("-file: %w", err)
	}
	return w, nil
}

func (w *workspace) Close() {
	_ = w.root.Close()
	if w.temp != "" {
		_ = os.RemoveAll(w.temp)
	}
}

// FileRequest is the input of the file tool.
type FileRequest struct {
	Path string `json:"path" jsonschema:"the file to read, relative to the working directory"`
}

// readFileTool returns a tool that reads files in the workspace.
func readFileTool(w *workspace) actors.Function {
	return decorators.Tool("read_file", "Reads a text file.",
		func(_ context.Context, in FileRequest) (string, error) {
			f, err := w.root.Open(in.Path)
			if err != nil {
				return "", err
			}
			defer f.Close()
			text, err := io.ReadAll(io.LimitReader(f, 64<<10))
			return string(text), err
		},
	).Require(func(ctx context.Context, in FileRequest) error {
		if !filepath.IsLocal(in.Path) {
			return fmt.Errorf("%q is outside the working directory; use a relative path such as %q", in.Path, w.name)
		}
		state.From(ctx).Log(slog.LevelInfo, "precondition holds: the path is inside the working directory", map[string]any{"path": in.Path})
		return nil
	})
}

// City is the input of the weather tool.
type City struct {
	Name string `json:"name" jsonschema:"the city to look up"`
}

// Weather is the answer of the weather service.
type Weather struct {
	City  string  `json:"city"`
	TempC float64 `json:"temp_c"`
}

// weatherTool returns a tool that calls the weather service. If the service sends
// Retry-After, httperror passes the delay on.
func weatherTool(serviceURL string) actors.Function {
	return decorators.Tool("get_weather", "Current weather in a city.",
		func(ctx context.Context, in City) (Weather, error) {
			return fetchWeather(ctx, serviceURL, in.Name)
		},
		actors.WithRetry(core.RetryConfig{MaxAttempts: 5, InitialDelay: 200 * time.Millisecond}),
		actors.WithAttemptTimeout(10*time.Second),
	).Ensure(func(_ context.Context, in City, out Weather) error {
		if out.TempC < -90 || out.TempC > 60 {
			return fmt.Errorf("%v °C in %s is not plausible", out.TempC, in.Name)
		}
		return nil
	})
}

func fetchWeather(ctx context.Context, serviceURL, city string) (Weather, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, serviceURL+"/weather?city="+url.QueryEscape(city), nil)
	if err != nil {
		return Weather{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Weather{}, err
	}
	defer resp.Body.Close()
	if err := httperror.Check(resp); err != nil {
		return Weather{}, err
	}
	var w Weather
	err = json.NewDecoder(resp.Body).Decode(&w)
	return w, err
}
