// Package retrybudget limits the total number of retries of many calls, so that retries
// do not multiply the load on a service that is already failing. Within a window of
// time, a budget allows a fixed number of retries, a fraction of the calls that begin,
// or the sum of both.
//
// Attach a budget to actors with actors.WithInterceptors(b.Interceptor()), or attach its
// [core.Interceptor] to a run or to a single call. A retry counts when it is scheduled. A
// budget is not stored: a new process starts with a full budget.
package retrybudget
