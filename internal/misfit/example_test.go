package misfit_test

import (
	"encoding/json"
	"fmt"

	"github.com/reprise-go/reprise/internal/misfit"
)

func Example() {
	var body struct {
		Tags []string `json:"tags"`
	}
	err := json.Unmarshal([]byte(`{"tags": "new"}`), &body)
	fmt.Println(misfit.Explain(err))
	// Output: tags: got a string, want an array of strings
}
