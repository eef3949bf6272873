// Package ratelimit makes calls wait for the rate limits of a service, so that the
// service does not refuse them.
//
//	limiter := ratelimit.New(ratelimit.Options{Name: "openai"})
//	llm := openai.New("gpt-4o-mini",
//		openai.WithHTTPClient(&http.Client{Transport: limiter.Transport(nil)}),
//		actors.WithInterceptors(limiter.Interceptor()))
//
// The transport reads the limits of the service on requests and tokens, and what is
// left of them, from the headers of each response. The interceptor delays attempts
// accordingly: see [Limiter]. Use one limiter for each account of a service, and share
// it among all clients and runs of the process that use the account.
//
// The headers read are Retry-After and the following:
//
//	X-Ratelimit-Limit-Requests, -Remaining-Requests, -Reset-Requests   and the same with Tokens: OpenAI and most others
//	X-Ratelimit-Limit, -Remaining, -Reset                              without the window in the name
//	X-Ratelimit-Limit-Tokens-Minute, …-Requests-Day                    with the window in the name
//	Anthropic-Ratelimit-Requests-Limit, …-Input-Tokens-Remaining       likewise
//	RateLimit-Policy, RateLimit                                        the IETF draft, in newer and older forms
//
// A limiter is in memory. It learns from the service what other processes have used of
// the limit. Processes can share a limit in this way, but not fairly, and not if the
// service reports nothing. With [Options].Storage they never exceed it together.
package ratelimit
