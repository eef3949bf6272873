package storeurl_test

import (
	"fmt"

	"github.com/reprise-go/reprise/adapters/jetstream/internal/storeurl"
)

func Example() {
	servers, options, credentials, err := storeurl.Parse("nats://a:4222,nats://b:4222?store=support&replicas=3&creds=nats.creds")
	fmt.Println(servers, options.Name, options.Replicas, credentials, err)
	// Output: nats://a:4222,nats://b:4222 support 3 nats.creds <nil>
}
