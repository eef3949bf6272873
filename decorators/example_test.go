package decorators_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

func ExampleTool() {
	type City struct {
		Name string `json:"name" jsonschema:"the city to look up"`
	}
	type Weather struct {
		TempC float64 `json:"temp_c"`
	}
	weather := decorators.Tool("get_weather", "Current weather in a city.",
		func(_ context.Context, in City) (Weather, error) {
			return Weather{TempC: float64(len(in.Name))}, nil
		})

	st := state.New()
	defer st.Close()
	out, err := weather.Call(st.Context(context.Background()), City{Name: "Oslo"})
	fmt.Println(out.TempC, err)
	fmt.Println(string(weather.Describe().Parameters))
	// Output:
	// 4 <nil>
	// {"type":"object","properties":{"name":{"type":"string","description":"the city to look up"}},"required":["name"],"additionalProperties":false}
}

func ExampleTool_conditions() {
	type Order struct {
		Item   string `json:"item"`
		Amount int    `json:"amount"`
	}
	attempts := 0
	price := decorators.Tool("get_price", "The price of an order in cents.",
		func(_ context.Context, in Order) (int, error) {
			attempts++
			if attempts == 1 {
				return -1, nil // the service is not ready yet
			}
			return in.Amount * 250, nil
		},
		actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}),
	).Require(func(_ context.Context, in Order) error {
		if in.Amount < 1 {
			return errors.New("amount must be 1 or more")
		}
		return nil
	}).Ensure(func(_ context.Context, _ Order, cents int) error {
		if cents < 0 {
			return errors.New("a price is never negative")
		}
		return nil
	})

	ctx := context.Background()
	cents, err := price.Call(ctx, Order{Item: "tea", Amount: 2})
	fmt.Println(cents, err, "attempts:", attempts)

	_, err = price.Call(ctx, Order{Item: "tea"})
	fmt.Println(err)
	// Output:
	// 500 <nil> attempts: 2
	// get_price: precondition: amount must be 1 or more
}

func ExampleAgent() {
	type Page struct {
		URL string `json:"url"`
	}
	fetch := decorators.Tool("fetch", "The text of a page.",
		func(_ context.Context, in Page) (string, error) { return "text of " + in.URL, nil })
	shout := decorators.Tool("shout", "The text in capitals.",
		func(_ context.Context, in struct{ Text string }) (string, error) {
			return strings.ToUpper(in.Text), nil
		})

	report := decorators.Agent("report", "Reads a page loudly.",
		func(ctx context.Context, in Page) (string, error) {
			text, err := fetch.Call(ctx, in)
			if err != nil {
				return "", err
			}
			return shout.Call(ctx, struct{ Text string }{text})
		})

	st := state.New()
	defer st.Close()
	out, err := report.Call(st.Context(context.Background()), Page{URL: "a.example"})
	fmt.Println(out, err)
	records, err := st.Records(context.Background())
	if err != nil {
		panic(err)
	}
	for _, r := range records {
		if r.Status == record.StatusCompleted {
			fmt.Println(r.Address, r.Status)
		}
	}
	// Output:
	// TEXT OF A.EXAMPLE <nil>
	// report/fetch completed
	// report/shout completed
	// report completed
}

func ExampleLLM() {
	echo := decorators.LLM("echo",
		func(_ context.Context, req actors.Request) (actors.Response, error) {
			last := req.Messages[len(req.Messages)-1]
			return actors.Response{Message: actors.Assistant("You said: " + last.Text)}, nil
		})
	assistant := actors.NewAgent("assistant", echo)

	answer, err := assistant.Call(context.Background(), actors.Ask("hello"))
	fmt.Println(answer.Text, err)
	// Output: You said: hello <nil>
}
