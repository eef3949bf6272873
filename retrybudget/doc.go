// Package retrybudget limits the retries of many calls together, so that they do
// not multiply the load on a service that is already failing. In any window of
// time a budget allows a number of retries, a share of the calls that begin, or
// the sum of both.
//
// Give a budget to actors with actors.WithRetryBudget, or to a run or a single
// call as a [core.Interceptor]. It belongs to the process and is not stored: a
// retry counts when it is promised, and a new process begins with a whole budget.
package retrybudget
