// Package eino makes agents of github.com/cloudwego/eino durable: calls of the models and
// tools of a graph are calls of a run. They are recorded, retried, limited and shown like
// those of package actors, and recalled when the run is resumed. The graph itself stays
// as it is.
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
// A run that is resumed runs the graph again from its beginning. The models and tools that
// had answered are not called again: the graph gets their recorded answers. So what
// lies between them (lambdas, branches, templates, the state of the graph) must come to
// the same from the same answers. What does not, such as the time, belongs in a core.Step.
// eino's own checkpoints and interrupts are not needed, and are not connected with the run:
// a tool that asks somebody uses core.Await.
//
// Tools that a model asks for in one message are numbered in the order of the message, so a
// ToolsNode may execute them at the same time, if both its tools and the model were made
// durable here. Other nodes that run at the same time, such as those of compose.Parallel,
// make their calls in an order that may differ when the run is resumed: it then stops
// with a core.DivergenceError, and no call gets the answer of another. If each of those
// nodes has a model of a name of its own, state.WithDivergence(state.DivergenceTrust) is
// right for such a run.
//
// Outside a run, calls are only retried.
package eino
