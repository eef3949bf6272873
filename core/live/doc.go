// Package live shows what calls produce while they run: the words of a model's answer as
// they arrive, and the progress of a tool.
//
// A handler emits each piece with [Emit], and [Watch] passes the pieces to the caller. The LLMs of
// package actors emit their answers, and packages printer and streamer show them.
package live
