// Package mcp connects Reprise with the Model Context Protocol, in both directions.
//
// A [Client] makes the tools of an MCP server tools of agents. Their calls are calls of the
// run: recorded, retried, recalled. A call that was lost after it was sent, and that must not
// be made twice, is in doubt: the run asks somebody. The list of tools is on record, so that a
// run that is resumed sees the same tools, and a replay needs no server.
//
//	files := mcp.Command("files", exec.Command("npx", "-y", "@modelcontextprotocol/server-filesystem", dir), mcp.Options{})
//	defer files.Close()
//	agent := actors.NewAgent("assistant", llm, mcp.WithServers(files))
//
// [NewHandler] and [ServeStdio] make the programs of a runner tools of MCP clients: a run is a
// task, and its open question is input that the task requires. [Main] is the main function of
// a program that serves them, over HTTP or, with the flag -mcp, over its standard input and
// output.
//
// The package is a module of its own, so that only its users link the SDK.
package mcp
