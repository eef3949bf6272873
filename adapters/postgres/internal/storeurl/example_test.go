package storeurl_test

import (
	"fmt"

	"github.com/reprise-go/reprise/adapters/postgres/internal/storeurl"
)

func Example() {
	database, schema, err := storeurl.Parse("postgres://app@db/app?schema=runs&sslmode=require")
	fmt.Println(database, schema, err)
	// Output: postgres://app@db/app?sslmode=require runs <nil>
}
