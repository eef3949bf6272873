// Package mcp connects Reprise with the Model Context Protocol, in both directions.
//
// A [Client] offers the tools of an MCP server to agents. Their calls are calls of the run:
// they are recorded, retried and recalled. If a call was sent, its response was lost, and it
// must not be made twice, then it is in doubt and the run asks what to do. The list of tools
// is recorded too. A resumed run therefore sees the same tools, and a replay needs no server.
//
//	files := mcp.Command("files", exec.Command("npx", "-y", "@modelcontextprotocol/server-filesystem", dir), mcp.Options{})
//	defer files.Close()
//	agent := actors.NewAgent("assistant", llm, mcp.WithServers(files))
//
// [NewHandler] and [ServeStdio] offer the programs of a runner as tools to MCP clients. A run
// is a task of the protocol, and an open question of the run is input that the task requires.
// [Main] is the main function of a program that serves its runs over HTTP or, with the flag
// -mcp, over standard input and output.
//
// The package is a separate module, so that only its users link the MCP SDK.
package mcp
