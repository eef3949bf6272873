package actors_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
)

// An agent with one tool. Here the model is a script; openai.New makes a real one.
func Example() {
	type City struct {
		Name string `json:"name" jsonschema:"the city to look up"`
	}
	weather := decorators.Tool("get_weather", "Current weather in a city.",
		func(_ context.Context, in City) (string, error) { return "4 °C in " + in.Name, nil })

	llm := decorators.LLM("script",
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
	records, err := st.Records(context.Background())
	if err != nil {
		panic(err)
	}
	for _, r := range records {
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

// When a trip fails, the tickets that were booked for it are returned.
func ExampleTool_Compensate() {
	type Seat struct {
		Number int `json:"number"`
	}
	book := decorators.Tool("book", "Books a seat.",
		func(_ context.Context, in Seat) (string, error) { return fmt.Sprint("ticket-", in.Number), nil },
	).Compensate(func(_ context.Context, in Seat, ticket string) error {
		fmt.Println("give back", ticket)
		return nil
	})
	trip := decorators.Agent("trip", "", func(ctx context.Context, _ struct{}) (string, error) {
		for _, seat := range []int{11, 12} {
			if _, err := book.Call(ctx, Seat{Number: seat}); err != nil {
				return "", err
			}
		}
		return "", errors.New("the hotel is full")
	})

	// A stored run must know what it may have to undo, since it may continue after a crash.
	st, err := state.Open(context.Background(), memstore.New(), "trip-1", state.WithCompensations(book))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	_, err = trip.Call(st.Context(context.Background()), struct{}{})
	fmt.Println(err)
	// Output:
	// give back ticket-12
	// give back ticket-11
	// trip: permanent: the hotel is full
}

// The service did not answer in time, so nobody knows whether the seat was booked.
func ExampleTool_CompensateInDoubt() {
	type Seat struct {
		Number int `json:"number"`
	}
	book := decorators.Tool("book", "Books a seat.",
		func(ctx context.Context, in Seat) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}), actors.WithAttemptTimeout(time.Millisecond),
	).Compensate(func(_ context.Context, in Seat, ticket string) error {
		fmt.Println("give back", ticket)
		return nil
	}).CompensateInDoubt(func(_ context.Context, in Seat) error {
		fmt.Println("free seat", in.Number, "if it is booked")
		return nil
	})
	trip := decorators.Agent("trip", "", func(ctx context.Context, _ struct{}) (string, error) {
		return book.Call(ctx, Seat{Number: 11})
	})
	_, err := trip.Call(context.Background(), struct{}{})
	fmt.Println(err != nil)
	// Output:
	// free seat 11 if it is booked
	// true
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

// The words of a model are shown as they arrive; the answer is complete at the end.
func ExampleStream() {
	llm := actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		for _, word := range []string{"It ", "is ", "4 °C."} {
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: word})
		}
		return actors.Response{Message: actors.Assistant("It is 4 °C.")}, nil
	})
	st := state.New()
	defer st.Close()
	var answer actors.Answer
	for delta, err := range actors.Stream(st.Context(context.Background()), actors.NewAgent("assistant", llm), actors.Ask("How warm is it?"), &answer) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if delta.Part == live.PartText {
			fmt.Print(delta.Text)
		}
	}
	fmt.Printf("\n%q after %d turn\n", answer.Text, answer.Turns)
	// Output:
	// It is 4 °C.
	// "It is 4 °C." after 1 turn
}

// The agent's answer is a value. The first answer does not fit, so it is sent back to the model.
func ExampleNewTypedAgent() {
	type Weather struct {
		City  string  `json:"city"`
		TempC float64 `json:"temp_c"`
	}
	tries := []string{`{"city":"Oslo"}`, `{"city":"Oslo","temp_c":4}`}
	llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		fmt.Println("asked:", req.Messages[len(req.Messages)-1].Text)
		text := tries[0]
		tries = tries[1:]
		return actors.Response{Message: actors.Assistant(text)}, nil
	})
	weather, err := actors.NewTypedAgent[string, Weather]("weather", llm).Call(context.Background(), "How warm is it in Oslo?")
	fmt.Printf("%+v %v\n", weather, err)
	// Output:
	// asked: How warm is it in Oslo?
	// asked: Your answer is not valid: temp_c: required field is missing
	// Answer again, with the JSON document alone.
	// {City:Oslo TempC:4} <nil>
}

// A tool that needs approval pauses the run; any process can answer.
func ExampleWithApproval() {
	type Mail struct {
		To string `json:"to"`
	}
	mail := decorators.Tool("send_mail", "Sends mail.",
		func(_ context.Context, in Mail) (string, error) { return "sent to " + in.To, nil },
		actors.WithApproval())

	ctx, store := context.Background(), memstore.New()
	for range 2 {
		st, err := state.Open(ctx, store, "r")
		if err != nil {
			fmt.Println(err)
			return
		}
		out, err := mail.Call(st.Context(ctx), Mail{To: "ada"})
		st.Close()
		var waiting *core.InterruptedError
		if errors.As(err, &waiting) {
			fmt.Println(waiting.Message)
			fmt.Println(state.Answer(ctx, store, "r", waiting.Question, "", actors.Approve()))
			continue
		}
		fmt.Println(out, err)
	}
	// Output:
	// Approve send_mail {"to":"ada"}
	// <nil>
	// sent to ada <nil>
}

func ExampleCallTools() {
	type Query struct {
		Word string `json:"word"`
	}
	wiki := decorators.Tool("wiki", "", func(_ context.Context, in Query) (string, error) { return in.Word + ": a fish", nil })
	books := decorators.Tool("books", "", func(context.Context, Query) (string, error) { return "", errors.New("closed") },
		actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	tools, err := actors.NewToolSet(wiki, books)
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := actors.CallTools(context.Background(), actors.Group{Name: "sources"}, tools, []actors.ToolCall{
		{Name: "books", Arguments: `{"word":"cod"}`}, {Name: "wiki", Arguments: `{"word":"cod"}`},
	})
	fmt.Println(err)
	for _, r := range results {
		fmt.Printf("%s: %q %v\n", r.Call.Name, r.Output.Text, r.Err != nil)
	}
	// Output:
	// <nil>
	// books: "" true
	// wiki: "cod: a fish" false
}
