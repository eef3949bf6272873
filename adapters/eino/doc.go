// Package eino makes agents that are built with github.com/cloudwego/eino durable: calls to a
// graph's models and tools become calls in a run. They are recorded, retried, limited and shown
// like calls to actors from package actors, and recalled when the run is resumed. The graph itself
// is not changed.
//
//	model, err := eino.Model("gpt-4o-mini", chatModel)
//	tools, err := eino.Tools(ctx, []tool.BaseTool{search, book})
//	agent, err := react.NewAgent(ctx, &react.AgentConfig{
//		ToolCallingModel: model,
//		ToolsConfig:      compose.ToolsNodeConfig{Tools: tools},
//	})
//	assistant := decorators.Agent("assistant", "", func(ctx context.Context, in Question) (string, error) {
//		answer, err := agent.Generate(ctx, []*schema.Message{schema.UserMessage(in.Text)})
//		…
//	})
//
// A resumed run executes the graph again from its beginning. Models and tools that have answered
// are not called again: the graph gets their recorded answers. Everything between these calls
// (lambdas, branches, templates, the graph's state) must therefore be deterministic. Wrap other
// code, such as reading the clock, in a core.Step. Eino's checkpoints and interrupts are not needed
// and have no connection to the run; a tool that asks a person uses core.Await.
//
// The tool calls in a model's message are numbered in the order in which the message lists them. A
// ToolsNode may therefore execute them concurrently, provided that the model and the tools were
// made durable with this package. Other concurrent nodes, such as those of compose.Parallel, make
// their calls in an order that may differ when the run is resumed. The run then stops with a
// core.DivergenceError; no call gets another call's answer. If the models in these nodes have
// different names, such a run may use state.WithDivergence(state.DivergenceTrust).
//
// Outside a run, calls are retried but not recorded.
package eino
