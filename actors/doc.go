// Package actors defines what can be called: [Tool], [LLM] and [Agent]. It also defines the
// messages between them, the tool-calling loop that [NewAgent] runs, and groups of parallel calls.
//
// An actor is a typed handler with a name, conditions and options. A call made with the context of
// a run (package state) is recorded, and is retried according to its configuration. Tools and
// agents also implement [Function], the untyped form that a model calls with JSON.
//
// An agent made by [NewAgent] answers with text, and one made by [NewTypedAgent] answers with a
// value of a Go type. [Stream] yields what a call produces while it is running. With
// [WithApproval], a tool waits for a person's approval.
//
// Package decorators makes actors from plain Go functions and infers the JSON schema of their
// arguments; actors/openai provides the LLM for OpenAI-compatible services.
package actors
