package main

import (
	"strings"
	"testing"
)

func TestLevelsOfTheDocumentHold(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"flaky_tool [COMPLETED after 4 attempts]", "Recovered after 3 retries", "Retrying (attempt 4/5) in 45ms...",
		"fetch_data [EXHAUSTED all 3 attempts]", "done /first; the second failed: true",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
}
