package decorators_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/state"
)

type city struct {
	Name string `json:"name" jsonschema:"the city to look up"`
}

type weather struct {
	TempC float64 `json:"temp_c"`
}

func lookUp(context.Context, city) (weather, error) { return weather{TempC: 20}, nil }

func cityIsKnown(_ context.Context, in city) error {
	if in.Name == "" {
		return errors.New("the city has no name")
	}
	return nil
}

func temperatureIsPlausible(_ context.Context, _ city, out weather) error {
	if out.TempC < -90 || out.TempC > 60 {
		return fmt.Errorf("%v °C", out.TempC)
	}
	return nil
}

type station struct{ offset float64 }

func (s station) read(_ context.Context, _ city) (weather, error) {
	return weather{TempC: s.offset}, nil
}

// same returns its input, so that a test can see how JSON from a model was decoded.
func same[T any](_ context.Context, in T) (T, error) { return in, nil }

// Part of the test is that it compiles: no call here specifies a type argument.
func TestTypesAreInferredFromTheFunction(t *testing.T) {
	tool := decorators.Tool("get_weather", "Current weather in a city.", lookUp,
		actors.WithRetry(core.RetryConfig{MaxAttempts: 5, InitialDelay: 2 * time.Second}),
		actors.WithAttemptTimeout(10*time.Second),
	).Require(cityIsKnown).Ensure(temperatureIsPlausible)
	method := decorators.Tool("read_station", "", station{offset: 3}.read)
	literal := decorators.Tool("literal", "", func(_ context.Context, in map[string]int) ([]string, error) { return nil, nil })
	agent := decorators.Agent("agent", "", lookUp)
	llm := decorators.LLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant("done")}, nil
	})
	assistant := actors.NewAgent("assistant", llm, actors.WithTools(tool, method, literal, agent))

	out, err := tool.Call(t.Context(), city{Name: "Oslo"})
	require.NoError(t, err)
	assert.Equal(t, weather{TempC: 20}, out)

	readings, err := actors.Map(t.Context(), actors.Group{Name: "collect"}, method, []city{{Name: "Oslo"}, {Name: "Rome"}})
	require.NoError(t, err)
	assert.Equal(t, []weather{{TempC: 3}, {TempC: 3}}, readings)

	answer, err := assistant.Call(t.Context(), actors.Ask("hello"))
	require.NoError(t, err)
	assert.Equal(t, "done", answer.Text)
}

func TestConditionsHold(t *testing.T) {
	tool := decorators.Tool("read_station", "", station{offset: 99}.read,
		actors.WithRetry(core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}),
	).Require(cityIsKnown).Ensure(temperatureIsPlausible)

	_, err := tool.Call(t.Context(), city{})
	require.ErrorIs(t, err, core.ErrPrecondition)

	_, err = tool.Call(t.Context(), city{Name: "Oslo"})
	require.ErrorIs(t, err, core.ErrCondition)
	assert.ErrorContains(t, err, "99 °C")
}

func TestDescribeReturnsNameDescriptionAndSchema(t *testing.T) {
	const schema = `{"type":"object","properties":{"name":{"type":"string","description":"the city to look up"}},"required":["name"],"additionalProperties":false}`
	for _, f := range []actors.Function{
		decorators.Tool("get_weather", "Current weather.", lookUp),
		decorators.Agent("get_weather", "Current weather.", lookUp),
	} {
		spec := f.Describe()
		assert.Equal(t, "get_weather", spec.Name)
		assert.Equal(t, "Current weather.", spec.Description)
		assert.JSONEq(t, schema, string(spec.Parameters), "%T", f)
	}
}

type base struct {
	ID int64 `json:"id"`
}

type every struct {
	base
	Plain    string
	Renamed  string `json:"renamed"`
	Hidden   string `json:"-"`
	secret   string
	Optional string         `json:"optional,omitempty"`
	Zero     time.Time      `json:"zero,omitzero"`
	Pointer  *float64       `json:"pointer"`
	Quoted   int            `json:"quoted,string"`
	Bytes    []byte         `json:"bytes"`
	List     []city         `json:"list"`
	Fixed    [2]bool        `json:"fixed"`
	ByName   map[string]int `json:"by_name"`
	Any      any            `json:"any"`
	At       time.Time      `json:"at"`
	Unit     string         `json:"unit" enum:"celsius,fahrenheit"`
	Nested   struct {
		Deep *city `json:"deep,omitempty"`
	} `json:"nested"`
}

func someEvery() every {
	half := 0.5
	e := every{
		base: base{ID: 1 << 60}, Plain: "plain", Renamed: "r", Hidden: "h", secret: "s", Optional: "o",
		Zero: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC), Pointer: &half, Quoted: 7, Bytes: []byte{0xff, 0},
		List: []city{{Name: "Oslo"}}, Fixed: [2]bool{true, false}, ByName: map[string]int{"a b": 1},
		Any: []any{"x", 1.5, nil}, At: time.Date(2025, 6, 7, 8, 9, 10, 11, time.UTC), Unit: "celsius",
	}
	e.Nested.Deep = &city{Name: "Rome"}
	return e
}

func TestSchemaAcceptsWhatEncodingJSONWrites(t *testing.T) {
	in := someEvery()
	arguments, err := json.Marshal(in)
	require.NoError(t, err)

	var got every
	tool := decorators.Tool("every", "", func(_ context.Context, in every) (string, error) { got = in; return "", nil })
	call, err := tool.Prepare(t.Context(), string(arguments))
	require.NoError(t, err)
	_, err = call(t.Context())
	require.NoError(t, err)

	in.Hidden, in.secret = "", "" // encoding/json does not encode these fields
	assert.Equal(t, in, got)
}

func TestSchemaHasThePropertiesThatEncodingJSONWrites(t *testing.T) {
	arguments, err := json.Marshal(someEvery())
	require.NoError(t, err)
	var written map[string]any
	require.NoError(t, json.Unmarshal(arguments, &written))

	var schema struct {
		Properties map[string]any `json:"properties"`
		Required   []string       `json:"required"`
	}
	parameters := decorators.Tool("every", "", same[every]).Describe().Parameters
	require.NoError(t, json.Unmarshal(parameters, &schema))
	for name := range written {
		assert.Contains(t, schema.Properties, name)
		optional := slices.Contains([]string{"optional", "zero", "pointer"}, name)
		assert.Equal(t, !optional, slices.Contains(schema.Required, name), "%s is required", name)
	}
	assert.Len(t, schema.Properties, len(written))
}

func TestArgumentsOfAModelAreChecked(t *testing.T) {
	type forecast struct {
		City city   `json:"city"`
		Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit"`
		Days *int   `json:"days"`
	}
	for _, tc := range []struct {
		name, arguments string
		want            []string
	}{
		{"a name that is misspelt", `{"cty":{}}`, []string{`cty: unknown field; want one of "city"`, "city: required field is missing"}},
		{"a missing field", `{}`, []string{"city: required field is missing"}},
		{"nothing at all", ``, []string{"city: required field is missing"}},
		{"a field of a field", `{"city":{"name":1}}`, []string{"city.name: got an integer, want a string"}},
		{"a value that is not in the enum", `{"city":{"name":"Oslo"},"unit":"kelvin"}`, []string{`unit: got "kelvin", want one of "celsius", "fahrenheit"`}},
		{"a fraction for an integer", `{"city":{"name":"Oslo"},"days":1.5}`, []string{"days: got 1.5, want an integer (no fraction or exponent) or null"}},
		{"two mistakes", `{"city":{"name":1},"days":"x"}`, []string{"city.name: ", "days: "}},
		{"no object", `"Oslo"`, []string{"want an object"}},
		{"null", `null`, []string{"want an object"}},
		{"no JSON", `{"city":`, []string{"JSON"}},
		{"more than one document", `{"city":{"name":"Oslo"}} {}`, []string{"JSON"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			called := false
			f := func(context.Context, forecast) (string, error) { called = true; return "", nil }
			for _, function := range []actors.Function{
				decorators.Tool("forecast", "", f),
				decorators.Agent("forecast", "", f),
			} {
				call, err := function.Prepare(t.Context(), tc.arguments)
				var invalid *actors.ArgumentsError
				require.ErrorAs(t, err, &invalid)
				assert.Nil(t, call)
				assert.Equal(t, "forecast", invalid.Function)
				require.ErrorContains(t, err, "invalid arguments for forecast: ")
				for _, want := range tc.want {
					require.ErrorContains(t, err, want)
				}
			}
			assert.False(t, called)
		})
	}
}

type notNull struct{}

func (notNull) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return errors.New("null is not allowed")
	}
	return nil
}

func TestArgumentsThatDoNotDecodeAreInvalid(t *testing.T) {
	tool := decorators.Tool("f", "", same[struct{ A notNull }])
	_, err := tool.Prepare(t.Context(), `{"A":1}`)
	require.NoError(t, err)
	_, err = tool.Prepare(t.Context(), `{"A":null}`)
	var invalid *actors.ArgumentsError
	require.ErrorAs(t, err, &invalid)
	require.EqualError(t, err, "invalid arguments for f: null is not allowed")
}

func TestMisspeltFieldIsNamed(t *testing.T) {
	_, err := decorators.Tool("get_weather", "", lookUp).Prepare(t.Context(), `{"nam":1}`)
	assert.EqualError(t, err, "invalid arguments for get_weather: "+
		"nam: unknown field; want \"name\"\nname: required field is missing")
}

func TestRefusedArgumentsClaimNoAddress(t *testing.T) {
	st := state.New()
	defer st.Close()
	ctx := st.Context(t.Context())
	tool := decorators.Tool("get_weather", "", lookUp)

	_, err := tool.Prepare(ctx, `{"nam":1}`)
	require.Error(t, err)
	call, err := tool.Prepare(ctx, `{"name":"Oslo"}`)
	require.NoError(t, err)
	out, err := call(ctx)
	require.NoError(t, err)

	assert.JSONEq(t, `{"temp_c":20}`, out.Text)
	records := testkit.Records(t, st)
	assert.Equal(t, "get_weather", records[len(records)-1].Address.String())
}

func TestInputMayBeAnyJSONObject(t *testing.T) {
	type tree struct {
		Name     string `json:"name"`
		Children []tree `json:"children,omitempty"`
	}
	for name, tc := range map[string]struct {
		function  actors.Function
		arguments string
	}{
		"struct":            {decorators.Tool("f", "", same[city]), `{"name":"Oslo"}`},
		"pointer to struct": {decorators.Tool("f", "", same[*city]), `{"name":"Oslo"}`},
		"map":               {decorators.Tool("f", "", same[map[string]int]), `{"a":1}`},
		"pointer to map":    {decorators.Tool("f", "", same[*map[string]int]), `{"a":1}`},
		"recursive struct":  {decorators.Tool("f", "", same[tree]), `{"name":"a","children":[{"name":"b"}]}`},
		"empty struct":      {decorators.Tool("f", "", same[struct{}]), `{}`},
		"agent":             {decorators.Agent("f", "", same[city]), `{"name":"Oslo"}`},
	} {
		t.Run(name, func(t *testing.T) {
			call, err := tc.function.Prepare(t.Context(), tc.arguments)
			require.NoError(t, err)
			out, err := call(t.Context())
			require.NoError(t, err)
			assert.JSONEq(t, tc.arguments, out.Text)
		})
	}
}

func TestNoArgumentsAreAnEmptyObject(t *testing.T) {
	call, err := decorators.Tool("now", "", same[struct{}]).Prepare(t.Context(), "")
	require.NoError(t, err)
	out, err := call(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "{}", out.Text)
}

func TestAgentWithoutSchemaIsCalledButNotGivenToAModel(t *testing.T) {
	agent := decorators.Agent("upper", "", same[string])

	out, err := agent.Call(t.Context(), "Oslo")
	require.NoError(t, err)
	assert.Equal(t, "Oslo", out)

	assert.Empty(t, agent.Describe().Parameters)
	_, err = agent.Prepare(t.Context(), `"Oslo"`)
	require.ErrorContains(t, err, `"upper" has no schema`)
	_, err = actors.NewToolSet(agent)
	assert.ErrorContains(t, err, `"upper" cannot be given to a model`)
}

type inner struct {
	Events chan int
}

type outer struct {
	Items []inner
}

func TestWrongDefinitionPanicsAndSaysWhatToDo(t *testing.T) {
	const names = "LLM services allow 1 to 64 letters, digits, underscores and dashes"
	invalid := actors.WithRetry(core.RetryConfig{MaxAttempts: -5})
	respond := func(context.Context, actors.Request) (actors.Response, error) { return actors.Response{}, nil }
	for name, tc := range map[string]struct {
		define func()
		want   []string
	}{
		"tool without a name":             {func() { decorators.Tool("", "", lookUp) }, []string{`""`, names}},
		"tool with a space in its name":   {func() { decorators.Tool("get weather", "", lookUp) }, []string{`"get weather"`, names}},
		"agent without a name":            {func() { decorators.Agent("", "", lookUp) }, []string{`""`, names}},
		"agent with a slash in its name":  {func() { decorators.Agent("a/b", "", lookUp) }, []string{`"a/b"`, names}},
		"LLM without a name":              {func() { decorators.LLM("", respond) }, []string{"the name is empty"}},
		"tool without a function":         {func() { decorators.Tool[city, weather]("f", "", nil) }, []string{`"f" has no handler: the function is nil`}},
		"agent without a function":        {func() { decorators.Agent[city, weather]("f", "", nil) }, []string{`"f" has no handler: the function is nil`}},
		"LLM without a function":          {func() { decorators.LLM("f", nil) }, []string{`"f" has no handler: the function is nil`}},
		"tool with an invalid retry":      {func() { decorators.Tool("f", "", lookUp, invalid) }, []string{"RetryConfig.MaxAttempts is -5; want 1 or more"}},
		"agent with an invalid retry":     {func() { decorators.Agent("f", "", lookUp, invalid) }, []string{"RetryConfig.MaxAttempts is -5; want 1 or more"}},
		"LLM with an invalid retry":       {func() { decorators.LLM("f", respond, invalid) }, []string{"RetryConfig.MaxAttempts is -5; want 1 or more"}},
		"tool with a nil option":          {func() { decorators.Tool("f", "", lookUp, nil) }, []string{`"f": an option is nil`}},
		"tool with an option of NewAgent": {func() { decorators.Tool("f", "", lookUp, actors.WithMaxTurns(1)) }, []string{`"f": WithMaxTurns applies only to NewAgent`}},
		"tool with no time":               {func() { decorators.Tool("f", "", lookUp, actors.WithAttemptTimeout(0)) }, []string{"WithAttemptTimeout(0s): want more than 0"}},
		"chan field": {
			func() { decorators.Tool("watch", "", same[inner]) },
			[]string{`tool "watch"`, "decorators_test.inner", "field Events: chan int has no schema", "want a bool, string", `json:"-"`},
		},
		"chan field of a field": {
			func() { decorators.Tool("watch", "", same[outer]) },
			[]string{`tool "watch"`, "field Items[].Events: chan int has no schema"},
		},
		"string":    {func() { decorators.Tool("f", "", same[string]) }, []string{`tool "f"`, "string is not a JSON object", "want a struct or a map with string keys"}},
		"slice":     {func() { decorators.Tool("f", "", same[[]city]) }, []string{"[]decorators_test.city is not a JSON object", "want a struct or a map with string keys"}},
		"any":       {func() { decorators.Tool("f", "", same[any]) }, []string{"is not a JSON object", "want a struct or a map with string keys"}},
		"time.Time": {func() { decorators.Tool("f", "", same[time.Time]) }, []string{"time.Time is a JSON string", "want a struct or a map with string keys"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := testkit.PanicText(t, tc.define)
			for _, want := range tc.want {
				assert.Contains(t, text, want)
			}
		})
	}
}
