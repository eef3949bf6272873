// Package redact removes secrets from texts, including texts that arrive in pieces.
//
// [New] returns [Rules] for regular expressions. For a text that streams in, rules hold
// back only what may be the beginning of a secret. [Func] and [Within] use a function
// instead.
package redact
