package types_test

import (
	"crypto/x509/pkix"
	"database/sql"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"log/slog"
	"math"
	"math/big"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"net/http"
	"net/mail"
	"net/netip"
	"net/textproto"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// An entry is a named value in the table.
type entry struct {
	name  string
	value any
	show  func(v any) string // returns the text that must not change; nil means dump
}

func (e *entry) shown(v any) string {
	if e.show == nil {
		return dump(v)
	}
	return e.show(v)
}

type (
	text    string
	integer int
	flags   uint8
	names   []text
	scores  map[text]float64
	pair    struct{ X, Y int }
	deep    struct {
		Name     string            `json:"name"`
		Children []deep            `json:"children,omitempty"`
		Parent   *deep             `json:"parent,omitempty"`
		By       map[string]*deep  `json:"by,omitempty"`
		Labels   map[string]string `json:"labels"`
	}
	based struct {
		pair
		Label string
	}
	pointerBased struct {
		*Base
		Label string
	}
	// Base is embedded by pointer.
	Base          struct{ ID int }
	holder[T any] struct{ V T }
	locked        struct {
		sync.Mutex
		N int
	}
	shadowing struct {
		pair
		X string
	}
)

// weekday has methods only for JSON, like a generated enum.
type weekday int

func (w weekday) MarshalJSON() ([]byte, error) { return json.Marshal(time.Weekday(w).String()) }
func (w *weekday) UnmarshalJSON(data []byte) error {
	var name string
	err := json.Unmarshal(data, &name)
	for i := range time.Saturday + 1 {
		if i.String() == name {
			*w = weekday(i)
		}
	}
	return err
}

// optional has unexported fields, and methods for JSON.
type optional[T any] struct {
	value T
	isSet bool
}

func (o optional[T]) MarshalJSON() ([]byte, error) {
	if !o.isSet {
		return []byte("null"), nil
	}
	return json.Marshal(o.value)
}

func (o *optional[T]) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	o.isSet = true
	return json.Unmarshal(data, &o.value)
}

func some[T any](v T) optional[T] { return optional[T]{v, true} }

func pointer[T any](v T) *T { return &v }

// inZone returns a time in the given month and time zone.
func inZone(name string, month time.Month) time.Time {
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return time.Date(2026, month, 15, 23, 59, 59, 123456789, zone)
}

// table returns values whose types are from the standard library, this package, and other modules.
func table(t testing.TB) []entry {
	t.Helper()
	var all []entry
	add := func(name string, value any) { all = append(all, entry{name: name, value: value}) }
	addShown := func(name string, value any, show func(any) string) { all = append(all, entry{name, value, show}) }
	addPlain(add)
	addTimes(add)
	addStandard(t, add, addShown)
	addOwn(add)
	addModules(t, add, addShown)
	for i := range all {
		all[i].name = fmt.Sprint(i, " ", all[i].name)
	}
	return all
}

func addPlain(add func(string, any)) {
	for _, v := range []any{
		true, int(-1), int8(math.MinInt8), int16(300), int32(-70000), int64(math.MinInt64), uint(7), uint8(255), uint16(65535), uint32(math.MaxUint32), uint64(math.MaxUint64),
		float32(0.1), 0.1, "größe", []byte("bytes"),
		[4]byte{1, 2},
		[]int{1, 2},
		[]string{"a", ""},
		[2]bool{true},
		[]float64{math.Inf(1), -0.5},
		map[string]int{"a": 1},
		map[int]string{-1: "x"},
		map[string][]string{"k": {"v"}},
		map[[2]int]bool{{1, 2}: true},
		[][]int{{1}, nil, {}},
		struct{}{},
		text("t"), integer(5), flags(3),
		names{"n"},
		scores{"s": 1.5},
		map[string]any{"n": int64(7), "f": 1.5, "s": "x", "l": []any{true, nil}, "m": map[string]any{"k": "v"}},
		[]any{int64(1), "a", nil},
		time.Second, time.March,
	} {
		add(reflect.TypeOf(v).String(), v)
	}
	add("nil slice", []int(nil))
	add("empty slice", []int{})
	add("nil map", map[string]int(nil))
	add("empty map", map[string]int{})
	add("nil pointer", (*int)(nil))
	add("pointer", pointer(5))
	add("pointer to pointer", pointer(pointer("x")))
	add("NaN", math.NaN())
	add("text that is not UTF-8", "a\xff")
	add("long text", strings.Repeat("x", 100000))
}

func addTimes(add func(string, any)) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia", "Europe/London"} {
		add("winter in "+zone, inZone(zone, time.January))
		add("summer in "+zone, inZone(zone, time.July))
	}
	add("zero time", time.Time{})
	add("time before 1970", time.Date(1883, 11, 18, 12, 0, 0, 1, time.FixedZone("LMT", -17762)))
	add("time after 9999", time.Date(12026, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)))
	add("time before the year 1", time.Date(-44, 3, 15, 0, 0, 0, 0, time.UTC))
	add("local time", time.Now())
	add("UTC time", time.Now().UTC())
	add("times", []time.Time{inZone("Asia/Tokyo", 1), {}})
	add("pointer to a time", pointer(inZone("Asia/Tokyo", 2)))
	add("time in an interface", holder[any]{inZone("Asia/Tokyo", 3).Truncate(time.Second)})
	add("time as a key", map[time.Time]int{time.Unix(1, 0).UTC(): 1})
	add("time in a struct", struct {
		At   time.Time  `json:"at"`
		Then *time.Time `json:"then,omitempty"`
	}{inZone("Asia/Tokyo", 3), pointer(inZone("America/Lima", 3))})
}

func addStandard(t testing.TB, add func(string, any), addShown func(string, any, func(any) string)) {
	link, err := url.Parse("https://user:pass@example.org:8080/a%2Fb?q=1#f")
	require.NoError(t, err)
	random := rand.NewPCG(1, 2)
	random.Uint64()
	rational := big.NewRat(-3, 7)
	_, network, err := net.ParseCIDR("2001:db8::/32")
	require.NoError(t, err)
	for _, v := range []any{
		big.NewInt(-1 << 40), *new(big.Int).Exp(big.NewInt(7), big.NewInt(200), nil), rational, *rational, netip.MustParseAddr("fe80::1%eth0"),
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParseAddrPort("[::1]:80"), net.IPv4(1, 2, 3, 4), *network,
		net.HardwareAddr{1, 2, 3},
		net.TCPAddr{IP: net.IPv4(1, 2, 3, 4), Port: 5},
		*link, link,
		url.Values{"q": {"1", "2"}},
		http.Header{"X": {"a"}},
		textproto.MIMEHeader{"X": {"a"}},
		http.SameSiteLaxMode,
		http.Cookie{Name: "n", Value: "v", Expires: inZone("UTC", 1)},
		mail.Address{Name: "A", Address: "a@example.org"},
		json.RawMessage(`{"a": 1}`), json.Number("1e400"), slog.LevelWarn, os.FileMode(0o644), *random,
		sql.NullString{String: "s", Valid: true},
		sql.NullTime{Time: inZone("Asia/Tokyo", 1), Valid: true},
		sql.Null[int]{V: 1, Valid: true},
		image.Rect(1, 2, 3, 4),
		color.RGBA{1, 2, 3, 4},
		xml.Name{Space: "s", Local: "l"},
		template.HTML("<b>"), reflect.Int,
		multipart.FileHeader{Filename: "f", Size: 3},
		pkix.AlgorithmIdentifier{Algorithm: []int{1, 2, 840}},
	} {
		add(reflect.TypeOf(v).String(), v)
	}
	addShown("*big.Float", big.NewFloat(1.5e300), func(v any) string { return v.(*big.Float).Text('g', -1) })
	addShown("regexp.Regexp", regexp.MustCompile(`^a+(b|c)$`), func(v any) string { return v.(*regexp.Regexp).String() })
	add("map of addresses", map[netip.Addr]string{netip.MustParseAddr("10.0.0.1"): "x"})
	add("url in a struct", struct{ U url.URL }{*link})
	add("urls by name", map[string]url.URL{"a": *link})
	add("address in a struct", struct {
		A netip.Addr `json:"a,omitempty"`
		B big.Int    `json:"b,omitempty"`
	}{netip.MustParseAddr("10.0.0.1"), *big.NewInt(5)})
	add("nil raw message", json.RawMessage(nil))
	add("broken raw message", json.RawMessage(`{"a":`))
}

func addOwn(add func(string, any)) {
	tree := deep{Name: "root", Children: []deep{{Name: "c"}}, Parent: &deep{Name: "p"}, By: map[string]*deep{"x": {Name: "y"}, "nil": nil}, Labels: map[string]string{"a": "b"}}
	for _, v := range []any{
		pair{1, 2},
		&pair{3, 4}, tree, &tree,
		based{pair{1, 2}, "l"},
		pointerBased{&Base{1}, "l"},
		holder[pair]{pair{1, 2}},
		holder[[]holder[text]]{[]holder[text]{{"x"}}},
		&locked{N: 1}, weekday(3),
		map[weekday]pair{1: {1, 2}},
		[]weekday{0, 6},
		&[]weekday{2}, some(7),
		optional[int]{},
		some(pair{1, 2}), some([]string{"a"}),
		holder[optional[string]]{some("x")},
		map[string]optional[int]{"a": some(1), "b": {}},
		[]*optional[bool]{nil, pointer(some(false))},
		shadowing{pair{1, 2}, "x"},
	} {
		add(reflect.TypeOf(v).String(), v)
	}
	add("nil embedded pointer", pointerBased{Label: "l"})
	add("optional in an interface", holder[any]{map[string]any{"o": "a"}})
}

func addModules(t testing.TB, add func(string, any), addShown func(string, any, func(any) string)) {
	id := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	for _, v := range []any{
		id, &id,
		[]uuid.UUID{id},
		map[uuid.UUID]int{id: 1},
		uuid.NullUUID{UUID: id, Valid: true},
		holder[uuid.UUID]{id},
		openai.ChatCompletionMessageToolCallUnion{},
		param.NewOpt("x"), param.NewOpt(int64(3)),
		holder[param.Opt[float64]]{param.NewOpt(0.5)},
	} {
		add(reflect.TypeOf(v).String(), v)
	}
	asText := func(v any) string {
		return dump(v) + " " + reflect.ValueOf(v).MethodByName("String").Call(nil)[0].String()
	}
	for _, v := range []any{decimal.RequireFromString("12345678901234567890.000100"), decimal.NullDecimal{Decimal: decimal.New(5, -1), Valid: true}.Decimal} {
		addShown("decimal "+asText(v), v, func(v any) string { return v.(decimal.Decimal).String() })
	}
	addShown("decimals", holder[[]decimal.Decimal]{[]decimal.Decimal{decimal.New(1, 3)}}, func(v any) string { return v.(holder[[]decimal.Decimal]).V[0].String() })
	addMessages(t, addShown)
	addOpenAI(t, addShown)
}

func addMessages(t testing.TB, addShown func(string, any, func(any) string)) {
	inText := func(v any) string { return prototext.MarshalOptions{}.Format(v.(proto.Message)) }
	packed, err := anypb.New(wrapperspb.String("x"))
	require.NoError(t, err)
	object, err := structpb.NewStruct(map[string]any{"a": 1.5, "b": []any{"x", nil, true}, "c": map[string]any{"d": "e"}})
	require.NoError(t, err)
	for _, m := range []proto.Message{
		timestamppb.New(inZone("UTC", 1)), durationpb.New(90 * time.Second), wrapperspb.Int64(1 << 60), wrapperspb.Bytes([]byte{1}), packed, object,
		structpb.NewListValue(object.Fields["b"].GetListValue()), &emptypb.Empty{}, &fieldmaskpb.FieldMask{Paths: []string{"a.b"}},
		&descriptorpb.FieldDescriptorProto{Name: proto.String("f"), Number: proto.Int32(7), Type: descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum()},
	} {
		addShown(reflect.TypeOf(m).String(), m, func(v any) string {
			// Package prototext adds random spaces to the text, so that nobody relies
			// on its format.
			return strings.Join(strings.Fields(inText(v)), " ")
		})
	}
}

func addOpenAI(t testing.TB, addShown func(string, any, func(any) string)) {
	inJSON := func(v any) string {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		return string(text)
	}
	var completion openai.ChatCompletion
	require.NoError(t, json.Unmarshal([]byte(`{"id":"c-1","object":"chat.completion","created":1700000000,"model":"gpt","choices":[{"index":0,"finish_reason":"tool_calls",
		"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`), &completion))
	var response responses.Response
	require.NoError(t, json.Unmarshal([]byte(`{"id":"r-1","object":"response","model":"gpt","status":"completed","output":[{"id":"m","type":"message","role":"assistant","status":"completed",
		"content":[{"type":"output_text","text":"hello","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`), &response))
	withRaw := func(v any) string {
		return inJSON(v) + " decoded from " + strings.Join(strings.Fields(v.(interface{ RawJSON() string }).RawJSON()), "")
	}
	for _, v := range []any{completion, &completion, completion.Choices[0].Message, completion.Choices[0].Message.ToolCalls[0], response, response.Output[0]} {
		addShown(reflect.TypeOf(v).String(), v, withRaw)
	}
	params := openai.ChatCompletionNewParams{
		Model: "gpt", Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("be short"), openai.UserMessage("hello")},
		Temperature: param.NewOpt(0.0), Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "f", Parameters: map[string]any{"type": "object"}})},
	}
	for _, v := range []any{params, params.Messages, params.Messages[0], params.Tools[0], holder[openai.ChatCompletionMessageParamUnion]{params.Messages[1]}} {
		addShown(reflect.TypeOf(v).String(), v, inJSON)
	}
}
