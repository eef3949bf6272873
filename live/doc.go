// Package live shows what calls produce while they go on: the words of a model's
// answer as they come, and how far a tool is.
//
// [Watch] shows it to the caller, and a handler produces it with [Emit]. The LLMs
// of package actors emit their answers, and packages printer and streamer show
// them.
package live
