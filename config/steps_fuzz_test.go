package config_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/reprise-go/reprise/config"
)

// FuzzReadSteps checks that the configuration read from any document is valid for a run, and that
// each error has a position.
func FuzzReadSteps(f *testing.F) {
	for _, step := range []string{
		"work_config: {max_retries: 3, init_backoff: 1000, max_backoff: 30000, backoff_type: exponential}\nhttp: {timeout: 5000}",
		"work_config: {max_retries: -1, backoff: 9223372036854775807, backoff_type: linear}", "work_config: {max_retries: 0}\ncompensate: http://a",
		"retry: {retryable: true, max_attempts: 0, backoff: exponential, backoff_base_ms: 0, max_backoff_ms: 99999999999999999999}",
		"retry: {max_attempts: 1e300, retryable: no}", "retry: true", "retry: 3", "retry: -3", "retry: .nan", "retry: {max_attempts: &a 3, backoff_multiplier: *a}",
		`{"retry": {"max_attempts": 5, "initial_delay": 1.0, "max_delay": 60, "jitter": true, "retry_when": "{{ status_code >= 500 or error != None }}", "stop_when": "success"}}`,
		"workflow:\n- step: a\n  retry: 3", "steps: {a: {retry: 3}}", "a: {retry: 3}\nb: {retry: true}", "tasks: &a [*a]", "- retry: 3\n- retry: 4",
		"retry: &a\n  <<: *a", "- 1", "", "\x00", "retry: {retry_when: \"{{\"}",
	} {
		f.Add([]byte(step))
	}
	f.Fuzz(func(t *testing.T, step []byte) {
		argyll := func(version config.ArgyllVersion) func([]byte) (config.Retry, []config.Problem, error) {
			return func(step []byte) (config.Retry, []config.Problem, error) {
				return config.ReadArgyll(step, version, config.ArgyllDefaults{})
			}
		}
		for name, read := range map[string]func([]byte) (config.Retry, []config.Problem, error){
			"Argyll 1": argyll(config.ArgyllV1), "Argyll 2": argyll(config.ArgyllV2), "Tasker": config.ReadTasker, "NoETL": config.ReadNoETL,
		} {
			r, warnings, err := read(step)
			if err != nil {
				var bad *config.Error
				if !errors.As(err, &bad) || len(bad.Problems) == 0 || bad.Problems[0].Line < 1 {
					t.Errorf("%s: %q: the error has no position: %v", name, step, err)
				}
				if !reflect.ValueOf(r).IsZero() {
					t.Errorf("%s: %q: half read: %+v", name, step, r)
				}
				continue
			}
			if err := r.Config().Validate(); err != nil {
				t.Errorf("%s: %q was read but is not valid: %v", name, step, err)
			}
			for _, w := range warnings {
				if w.Line < 1 {
					t.Errorf("%s: %q: a warning has no position: %v", name, step, w)
				}
			}
		}
	})
}

// FuzzArgyllEnvironment checks that each variable is either read or named in the error.
func FuzzArgyllEnvironment(f *testing.F) {
	for _, text := range []string{"3", "-1", "0", "linear", "99999999999999999999", "1.5", "\x00", " 7 ", "-9223372036854775808"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := config.ArgyllEnvironment(func(string) string { return text })
		if err != nil {
			if d != (config.ArgyllDefaults{}) {
				t.Errorf("%q: half read", text)
			}
			return
		}
		for _, version := range []config.ArgyllVersion{config.ArgyllV1, config.ArgyllV2} {
			r, _, err := config.ReadArgyll([]byte("id: a"), version, d)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if err := r.Config().Validate(); err != nil {
				t.Errorf("%q was read but is not valid: %v", text, err)
			}
		}
	})
}
