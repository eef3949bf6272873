// Package actors defines what can be called: [Tool], [LLM] and [Agent], the messages
// between them, the tool-calling loop that [NewAgent] runs, and groups of parallel calls.
//
// An actor is a typed handler with a name, conditions and options. A call with the
// context of a run (package state) is recorded, and is retried according to its
// configuration. Tools and agents are also a [Function], the untyped form that a model
// calls with JSON.
//
// [NewAgent] answers with text, [NewTypedAgent] with a value of a Go type. [Stream] shows
// what a call produces while it runs, and with [WithApproval] a tool waits for the
// approval of a human.
//
// Package decorators makes actors from plain Go functions and infers the JSON schema of
// their arguments; actors/openai has the LLM for OpenAI-compatible services.
package actors
