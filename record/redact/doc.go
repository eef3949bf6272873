// Package redact removes secrets from text, including text that arrives in pieces.
//
// [New] returns [Rules] that consist of regular expressions. When text is streamed, rules hold back
// only what may be the beginning of a secret. [Func] and [Within] use a function instead of rules.
package redact
