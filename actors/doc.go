// Package actors holds what can be called: [Tool], [LLM] and [Agent], the
// messages between them, the tool-calling loop that [NewAgent] runs, and
// groups of parallel calls.
//
// An actor is a typed handler with a name, conditions and options. Calling it
// with the context of a run (package state) records the call and retries it as
// its configuration says. Tools and agents are also a [Function], the erased
// side that a model's JSON meets.
//
// [NewAgent] answers with text, [NewTypedAgent] with a value of a Go type.
// [Stream] shows what is produced while a call goes on, and [WithApproval] has
// a tool wait for approval by a human.
//
// Package decorators makes actors of plain Go functions, with the JSON schema
// of the arguments inferred; actors/openai has the LLM that talks to
// OpenAI-compatible services.
package actors
