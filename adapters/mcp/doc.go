// Package mcp connects Reprise with the Model Context Protocol, in both directions.
//
// A [Client] offers an MCP server's tools to agents. Calls to these tools belong to the run: they
// are recorded, retried and recalled. If a call was sent but its response was lost, and the call
// must not be made twice, it is in doubt, and the run asks what to do. The list of tools is also
// recorded. A resumed run therefore sees the same tools, and a replay needs no server.
//
//	files := mcp.Command("files", exec.Command("npx", "-y", "@modelcontextprotocol/server-filesystem", dir), mcp.Options{})
//	defer files.Close()
//	agent := actors.NewAgent("assistant", llm, mcp.WithServers(files))
//
// [NewHandler] and [ServeStdio] offer a runner's programs as tools to MCP clients. In the protocol,
// a run is a task, and the run's open questions are input that the task requires. [Main] is the
// main function for a program that serves its runs over HTTP or, with the flag -mcp, over standard
// input and output.
//
// The package is a separate module, so that only programs that use it link the MCP SDK.
package mcp
