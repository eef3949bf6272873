// Package seeds tests that Reprise can express the retry semantics of other
// systems, following their documents line by line. A quotation in a test's comment
// is the heading or the sentence that is tested. The table of rules is in
// docs/seeds.md.
package seeds
