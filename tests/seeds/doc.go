// Package seeds tests that Reprise can express the retry semantics of other systems, following
// their documents line by line. A quotation in the comment of a test is the heading or the sentence
// that is tested. docs/seeds.md contains the table of rules.
package seeds
