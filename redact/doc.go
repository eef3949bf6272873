// Package redact hides secrets in texts, also in those that arrive in pieces.
//
// [New] makes [Rules] of regular expressions, which know themselves how far they reach: of a
// text that streams, they hold back what may be the beginning of a secret, and nothing else.
// [Func] and [Within] take a function instead.
package redact
