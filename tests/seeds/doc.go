// Package seeds tests the retry semantics of the systems that Reprise can
// express, line by line from their documents. The table of rules is
// docs/seeds.md.
package seeds
