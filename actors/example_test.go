package actors_test

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
)

// An agent with one tool. The model is a script; openai.New makes a real one.
func Example() {
	type City struct {
		Name string `json:"name" jsonschema:"the city to look up"`
	}
	weather := decorators.Tool("get_weather", "Current weather in a city.",
		func(_ context.Context, in City) (string, error) { return "4 °C in " + in.Name, nil })

	llm := decorators.LLM("script", "Asks for the weather, then tells it.",
		func(_ context.Context, req actors.Request) (actors.Response, error) {
			last := req.Messages[len(req.Messages)-1]
			if last.Role == actors.RoleTool {
				return actors.Response{Message: actors.Assistant("It is " + last.Text + ".")}, nil
			}
			return actors.Response{Message: actors.Message{
				Role:      actors.RoleAssistant,
				ToolCalls: []actors.ToolCall{{ID: "1", Name: "get_weather", Arguments: `{"name":"Oslo"}`}},
			}}, nil
		})
	assistant := actors.NewAgent("assistant", llm, actors.WithTools(weather))

	st := state.New()
	defer st.Close()
	answer, err := assistant.Call(st.Context(context.Background()), actors.Ask("How warm is it in Oslo?"))
	fmt.Println(answer.Text, err)
	for _, r := range st.Records() {
		if r.IsOutcome() {
			fmt.Println(r.Address, r.Status)
		}
	}
	// Output:
	// It is 4 °C in Oslo. <nil>
	// assistant/script completed
	// assistant/get_weather completed
	// assistant/script#2 completed
	// assistant completed
}

func ExampleMap() {
	type City struct {
		Name string `json:"name"`
	}
	count := decorators.Tool("count", "How many letters a city has.",
		func(_ context.Context, in City) (int, error) { return len(in.Name), nil })

	st := state.New()
	defer st.Close()
	group := actors.Group{Name: "cities", Workers: 2}
	letters, err := actors.Map(st.Context(context.Background()), group, count, []City{{"Oslo"}, {"Rome"}, {"Lisbon"}})
	fmt.Println(letters, err)
	// Output: [4 4 6] <nil>
}
