// Package failover makes one model of several: if the first does not answer, the next
// is asked.
//
//	llm := failover.New("assistant-model", failover.Options{},
//		openai.New("gpt-4o-mini"),
//		openai.New("claude-haiku-4-5", openai.WithBaseURL("https://api.anthropic.com/v1"), openai.WithAPIKey(key)))
//
// Each model that is asked is a call of its own inside that of the failover: it has
// its own retries, is on record with its error or its answer, and is not asked again
// when the run is resumed. The attribute answered_by of the failover says which one
// has answered.
//
// What a model has streamed before it gave up is withdrawn: the failover shows the
// deltas of its models as its own, and begins again with each model.
package failover
