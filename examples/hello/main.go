package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
)

type City struct {
	Name string `json:"name" jsonschema:"the city to look up"`
}

func main() {
	weather := decorators.Tool("get_weather", "Current weather in a city.",
		func(_ context.Context, in City) (string, error) { return "4 °C in " + in.Name, nil })
	assistant := actors.NewAgent("assistant", openai.New("gpt-4o-mini"), actors.WithTools(weather))
	st := state.New()
	answer, err := assistant.Call(st.Context(context.Background()), actors.Ask("How warm is it in Oslo?"))
	if err = errors.Join(err, st.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text)
}
