package actors

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/reprise-go/reprise/core"
)

// Annotate adds attributes to the attempt that ctx belongs to (see [core.Annotate]), one for each
// option that is set: request_model, max_tokens, temperature, top_p, seed, stop (as JSON), effort
// and output_type (json if there is a format). From ExtraBody, it also records top_k,
// frequency_penalty, presence_penalty and n if they are numbers. [NewLLM] calls Annotate with the
// options of the request. A handler with its own defaults should call it with the options that it
// sends.
func (o ModelOptions) Annotate(ctx context.Context) {
	setAttribute(ctx, "request_model", o.Model)
	setAttribute(ctx, "max_tokens", o.MaxTokens)
	setAttribute(ctx, "effort", o.Effort)
	for key, v := range map[string]*float64{"temperature": o.Temperature, "top_p": o.TopP} {
		if v != nil {
			core.Annotate(ctx, key, *v)
		}
	}
	if o.Seed != nil {
		core.Annotate(ctx, "seed", *o.Seed)
	}
	if len(o.Stop) > 0 {
		stop, _ := json.Marshal(o.Stop) // strings can be marshalled
		core.Annotate(ctx, "stop", string(stop))
	}
	if o.Format != nil {
		core.Annotate(ctx, "output_type", "json")
	}
	for _, key := range [...]string{"top_k", "frequency_penalty", "presence_penalty", "n"} {
		switch v := o.ExtraBody[key].(type) {
		case int, int64, float32, float64:
			core.Annotate(ctx, key, v)
		}
	}
}

// setAttribute records an attribute unless its value is zero.
func setAttribute[T comparable](ctx context.Context, key string, value T) {
	var zero T
	if value != zero {
		core.Annotate(ctx, key, value)
	}
}

// annotate records the model, ID and finish reason of a response as attributes of the attempt.
func annotate(ctx context.Context, resp *Response) {
	setAttribute(ctx, "model", resp.Model)
	setAttribute(ctx, "response_id", resp.ID)
	setAttribute(ctx, "finish", cmp.Or(resp.FinishReason, string(resp.Finish)))
}
