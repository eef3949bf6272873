// Package seeds tests the retry semantics of the systems that Reprise can
// express, line by line from their documents. A quotation in the comment of a
// test is the heading or the sentence that is tested. The table of rules is
// docs/seeds.md.
package seeds
