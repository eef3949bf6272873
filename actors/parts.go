package actors

import (
	"context"
	"fmt"
	"slices"
)

// partsKey is the context key of the function given to [ContextWithParts].
type partsKey struct{}

// ContextWithParts returns a context in which LLMs get the data of parts that are stored elsewhere:
// parts with a URL that fetch recognizes. fetch returns the data for the URL, and reports
// whether it recognizes the URL. It is called for each attempt of a call of an LLM, and its
// result is not recorded. Recorded and compared requests contain the URLs.
func ContextWithParts(ctx context.Context, fetch func(ctx context.Context, url string) (data []byte, isOurs bool, err error)) context.Context {
	return context.WithValue(ctx, partsKey{}, fetch)
}

// withData returns the request with the data of its parts.
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
