// Package actorstest has what tests of agents need: a language model that
// answers from a script, without HTTP, and checks on the records of a run.
//
//	model := actorstest.NewScript(t,
//		actorstest.Calls(actorstest.Call("get_weather", City{"Oslo"})),
//		actorstest.Say("It is 4 °C."),
//	)
//	assistant := actors.NewAgent("assistant", model.LLM("model"), actors.WithTools(weather))
//	…
//	records, err := st.Records(ctx)
//	…
//	actorstest.CheckCalls(t, records,
//		"assistant/model completed",
//		"assistant/get_weather completed after 2 attempts",
//		"assistant/model#2 completed",
//		"assistant completed",
//	)
//
// Where what goes over the wire matters, openaitest has a scripted server.
package actorstest
