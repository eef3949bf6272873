package callsite_test

import (
	"fmt"

	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/record"
)

func ExampleSite_Call() {
	site := callsite.Of("assistant@2", "get_weather")
	second := site.Call(2)
	fmt.Println(record.Address(second), second.Site() == site)
	// Output: assistant@2/get_weather#2 true
}
