package actors

import (
	"context"
	"fmt"
	"slices"
)

// partsKey is the context key of the function passed to [ContextWithParts].
type partsKey struct{}

// ContextWithParts returns a context in which LLMs load the data of parts that are stored
// elsewhere. For each part with a URL, fetch returns the data and reports whether it recognizes the
// URL; if it does not, the part is sent unchanged. fetch is called in each attempt of an LLM call,
// and its result is not recorded: the requests that are recorded and compared contain only the
// URLs.
func ContextWithParts(ctx context.Context, fetch func(ctx context.Context, url string) (data []byte, isOurs bool, err error)) context.Context {
	return context.WithValue(ctx, partsKey{}, fetch)
}

// withData returns the request with the data that is stored elsewhere filled in; see
// [ContextWithParts].
func withData(ctx context.Context, req Request) (Request, error) {
	fetch, _ := ctx.Value(partsKey{}).(func(context.Context, string) ([]byte, bool, error))
	if fetch == nil {
		return req, nil
	}
	messages := slices.Clone(req.Messages)
	for i := range messages {
		parts := messages[i].Parts
		for j := range parts {
			if parts[j].URL == "" {
				continue
			}
			data, isOurs, err := fetch(ctx, parts[j].URL)
			if err != nil {
				return req, fmt.Errorf("actors: message %d: part %d: %w", i+1, j+1, err)
			}
			if !isOurs {
				continue
			}
			parts = slices.Clone(parts)
			parts[j].Data, parts[j].URL = data, ""
			messages[i].Parts = parts
		}
	}
	req.Messages = messages
	return req, nil
}
