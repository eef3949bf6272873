package types_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"decode": decode, "trip": trip})
}

// decode decodes the values in a file, and writes their contents to another file.
func decode(args ...string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var encoded map[string]string
	if err := json.Unmarshal(data, &encoded); err != nil {
		return err
	}
	shown := make(map[string]string)
	for _, e := range table(failer{}) {
		value, err := hex.DecodeString(encoded[e.name])
		if err != nil {
			return err
		}
		into := reflect.New(reflect.TypeOf(e.value))
		if err := record.Decode(value, into.Interface()); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		shown[e.name] = e.shown(into.Elem().Interface())
	}
	if data, err = json.Marshal(shown); err != nil {
		return err
	}
	return os.WriteFile(args[1], data, 0o600)
}

// failer is a testing.TB for use in a process outside a test. It panics on failure.
type failer struct{ testing.TB }

func (failer) Helper() {}

func (failer) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (failer) FailNow() { panic("failed") }

func TestValuesOfManyTypesComeBackAsTheyWentOut(t *testing.T) {
	values := table(t)
	require.Greater(t, len(values), 100)
	encoded := make(map[string]string)
	for _, e := range values {
		data, err := record.Encode(e.value)
		require.NoError(t, err, e.name)
		encoded[e.name] = hex.EncodeToString(data)
		into := reflect.New(reflect.TypeOf(e.value))
		require.NoError(t, record.Decode(data, into.Interface()), e.name)
		assert.Equal(t, e.shown(e.value), e.shown(into.Elem().Interface()), e.name)
		live, err := record.HashOf(e.value)
		require.NoError(t, err)
		again, err := record.HashOf(into.Elem().Interface())
		require.NoError(t, err)
		assert.Equal(t, live, again, "%s: the decoded value is a different input", e.name)
	}
	dir := t.TempDir()
	in := filepath.Join(dir, "encoded")
	text, err := json.Marshal(encoded)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(in, text, 0o600))
	for _, zone := range []string{"UTC", "Asia/Tokyo", "America/St_Johns"} {
		out := filepath.Join(dir, "shown")
		cmd := process.Command(t, "decode", in, out)
		cmd.Env = append(cmd.Env, "TZ="+zone)
		printed, err := cmd.CombinedOutput()
		require.NoError(t, err, string(printed))
		assert.Empty(t, string(printed), "nothing is printed")
		text, err := os.ReadFile(out)
		require.NoError(t, err)
		var shown map[string]string
		require.NoError(t, json.Unmarshal(text, &shown))
		for _, e := range values {
			assert.Equal(t, e.shown(e.value), shown[e.name], "%s in %s", e.name, zone)
		}
	}
}

func TestUnionOfAResponseIsWholeAfterItWasDecoded(t *testing.T) {
	var live responses.Response
	require.NoError(t, json.Unmarshal([]byte(`{"id":"r-1","output":[{"id":"m","type":"message","role":"assistant","content":[{"type":"output_text","text":"hello"}]},
		{"id":"f","type":"function_call","call_id":"c","name":"look_up","arguments":"{}"}]}`), &live))
	data, err := record.Encode(struct{ Response *responses.Response }{&live})
	require.NoError(t, err)
	var got struct{ Response *responses.Response }
	require.NoError(t, record.Decode(data, &got))
	assert.Equal(t, live.Output[0].AsAny(), got.Response.Output[0].AsAny())
	assert.Equal(t, "look_up", got.Response.Output[1].AsFunctionCall().Name)
	assert.JSONEq(t, live.RawJSON(), got.Response.RawJSON())
}
