// Package turn converts a run that is a turn of a thread into the events that a page shows: steps
// with text and thoughts, tool calls and their results, retries, questions, and the end. Packages
// agui and aisdk encode these events in their protocols.
package turn
