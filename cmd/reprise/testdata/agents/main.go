// Command agents serves the agents of a small program.
package main

import (
	"context"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
)

func main() {
	service.Main(func(r *runner.Runner) error {
		runner.Register(r, greet)
		return nil
	})
}

type person struct {
	Name string `json:"name"`
}

var greet = decorators.Agent("greet", "Greets a person.", func(ctx context.Context, in person) (string, error) {
	word, err := core.Await[string](ctx, "Which word?")
	return word + " " + in.Name, err
})
