// Package budget bounds what calls of models may use: tokens, money, calls and time,
// of a run, of a conversation, of a tenant, of a day.
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
// A call that would exceed the budget does not begin: it fails with
// core.ErrBudget. What it is going to use is reserved before it begins, as far as
// that is known: one call, its time, and an estimate of its tokens and their price.
// When it ends, what it has used takes that place. So a budget of calls holds
// exactly, and one of tokens or money may be exceeded by as much as the calls under
// way use more than was estimated. If a process ends during a call, its
// reservation stays.
//
// An agent that knows how much is left can be told: see [Budget.Left]. A human may
// raise a budget ([Budget.Raise]); a run that has failed for it then goes on with
// state.Retry, or "reprise retry".
//
// Give the interceptor to the models that are paid for, as the innermost one, behind
// limiters, breakers and caches. In a list for all calls of a run, a model that asks
// another model counts as a call, too.
package budget
