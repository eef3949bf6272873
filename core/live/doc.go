// Package live shows what calls produce while they run: the words of a model's answer as
// they arrive, and the progress of a tool.
//
// [Watch] passes this to the caller, and a handler emits it with [Emit]. The LLMs of package
// actors emit their answers, and packages printer and streamer show them.
package live
