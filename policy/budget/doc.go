// Package budget limits what model calls may consume: tokens, money, calls and time, per run,
// conversation, tenant or day.
//
//	limit := budget.New(budget.Options{
//		Name:    "tenant",
//		Limit:   budget.Amount{Cost: 5, Calls: 1000},
//		For:     budget.Tag("tenant:"),
//		Daily:   true,
//		Price:   budget.KnownPrices().Of,
//		Storage: storage, // such as budget.OpenDir("budgets")
//	})
//	llm := openai.New("gpt-4o-mini", actors.WithInterceptors(limit.Interceptor()))
//
// A call that would exceed the budget does not begin: it fails with core.ErrBudget. Before a call
// begins, the budget reserves one call and an estimate of its tokens and their price. When the call
// ends, the actual amount replaces the reservation. A limit on calls is therefore exact. Each
// attempt counts as a call, even if an interceptor inside the budget provides the answer after the
// attempt has failed. A limit on tokens or money may be exceeded by the amount that calls in
// progress use beyond their estimates. The time of a call is counted when the call ends. The
// context of a call ends when the time that was left at its beginning has passed. If the process
// ends during a call, the reservation of the call remains.
//
// An agent can be told how much is left: see [Budget.Left]. A person can raise a budget with
// [Budget.Raise]. A run that failed because of the budget then continues with state.Retry or
// "reprise retry".
//
// Attach the interceptor to the models that cost money, as their innermost interceptor, inside rate
// limiters, breakers and caches. If it is attached to all calls of a run, a model that calls
// another model is counted as well.
package budget
