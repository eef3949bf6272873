package main

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
)

//go:embed index.html dist/main.js
var files embed.FS

func main() {
	model, err := startModel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "webchat:", err)
		os.Exit(1)
	}
	defer model.Close()
	llm := openai.New("script", openai.WithBaseURL(model.URL()), openai.WithAPIKey("none"))
	o := service.Options{
		Dir: filepath.Join(os.TempDir(), "reprise-webchat"),
		Routes: map[string]http.Handler{
			"GET /webchat/{$}":     page("index.html"),
			"GET /webchat/main.js": page("dist/main.js"),
		},
		Ready: func(url string) { fmt.Printf("The chat is at %swebchat/\n", url) },
	}
	service.MainWith(o, func(r *runner.Runner) error {
		runner.Register(r, conversation.NewProgram(r.Store(), assistant(llm)))
		return nil
	})
}

// page serves a file.
func page(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.ServeFileFS(w, req, fs.FS(files), name)
	})
}
