// Package actorstest helps to test agents. It provides a language model that
// answers from a script without HTTP, functions that check the records of a run,
// and [AfterEachRecord], for testing that an agent can continue wherever its
// process ends.
//
//	model := actorstest.NewScript(t,
//		actorstest.Calls(actorstest.Call("get_weather", City{"Oslo"})),
//		actorstest.Say("It is 4 °C."),
//	)
//	assistant := actors.NewAgent("assistant", model.LLM("model"), actors.WithTools(weather))
//	st := state.New(state.WithRoundTrip()) // outputs are encoded and decoded, as with a store
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
// To test what is sent over HTTP, use the scripted server of package openaitest.
package actorstest
