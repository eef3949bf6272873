// Package turn defines what a page shows of a run that is a turn of a thread: steps with
// text and thoughts, tool calls and their results, retries, questions, and the end.
// Packages agui and aisdk encode it in their protocols.
package turn
