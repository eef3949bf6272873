// Package storeurl parses the URL of a store on JetStream.
package storeurl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/adapters/jetstream"
)

// Parse parses a URL such as nats://a:4222,nats://b:4222?store=support&replicas=3. The result
// credentials is the path of the file with a user's credentials, or empty if the URL has none.
// Errors returned by Parse contain no passwords.
func Parse(storeURL string) (servers string, o jetstream.Options, credentials string, err error) {
	servers, query, _ := strings.Cut(storeURL, "?")
	for server := range strings.SplitSeq(servers, ",") {
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return "", o, "", errors.New("its URL does not name NATS servers; want one such as nats://a:4222,nats://b:4222")
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", o, "", fmt.Errorf("the parameters of its URL: %w", err)
	}
	for name := range values {
		value := values.Get(name)
		switch name {
		case "store":
			o.Name = value
		case "replicas":
			if o.Replicas, err = strconv.Atoi(value); err != nil || o.Replicas < 1 {
				return "", o, "", fmt.Errorf("replicas is %q; want a number such as 3", value)
			}
		case "lease":
			if o.Lease, err = time.ParseDuration(value); err != nil {
				return "", o, "", fmt.Errorf("lease is %q; want a duration such as 10s", value)
			}
		case "creds":
			credentials = value
		case "domain":
			o.Domain = value
		case "api_prefix":
			o.APIPrefix = value
		default:
			return "", o, "", fmt.Errorf("unknown parameter %q in its URL; want store, replicas, lease, creds, domain or api_prefix", name)
		}
	}
	return servers, o, credentials, nil
}
