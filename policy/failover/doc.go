// Package failover combines several models into one: if a model does not answer, the next one is
// called.
//
//	llm := failover.New("assistant-model", failover.Options{},
//		openai.New("gpt-4o-mini"),
//		openai.New("claude-haiku-4-5", openai.WithBaseURL("https://api.anthropic.com/v1"), openai.WithAPIKey(key)))
//
// Each model is called inside the failover's own call. A model has its own retries. Its answer or
// error is recorded, so that the model is not called again when the run is resumed. The attribute
// answered_by of the failover's call names the model that answered.
//
// The failover emits the deltas of its models as its own. If a model fails after it has emitted
// deltas, those deltas are withdrawn, and the next model starts from the beginning.
package failover
