// Package ratelimit delays calls so that they stay within the rate limits of a service. Otherwise,
// the service would refuse them.
//
//	limiter := ratelimit.New(ratelimit.Options{Name: "openai"})
//	llm := openai.New("gpt-4o-mini",
//		openai.WithHTTPClient(&http.Client{Transport: limiter.Transport(nil)}),
//		actors.WithInterceptors(limiter.Interceptor()))
//
// From the headers of each response, the transport learns the service's limits on requests and
// tokens, and how much is left of each limit. The interceptor delays attempts accordingly: see
// [Limiter]. Use one limiter for each account of a service, and share it among all clients and runs
// of the process that use the account.
//
// The transport reads Retry-After and the following headers:
//
//	X-Ratelimit-Limit-Requests, -Remaining-Requests, -Reset-Requests   and the same with Tokens: OpenAI and most others
//	X-Ratelimit-Limit, -Remaining, -Reset                              without the window in the name
//	X-Ratelimit-Limit-Tokens-Minute, …-Requests-Day                    with the window in the name
//	Anthropic-Ratelimit-Requests-Limit, …-Input-Tokens-Remaining       likewise
//	RateLimit-Policy, RateLimit                                        the IETF draft, in newer and older forms
//
// A limiter keeps its state in memory. The service tells it how much of a limit other processes
// have used. Processes can share a limit in this way, but not fairly, and only if the service
// reports how much is left. With [Options].Storage, the processes together never exceed the limit.
package ratelimit
