// Package ratelimit has calls of a service wait for its rate limits instead of
// being refused.
//
//	limiter := ratelimit.New(ratelimit.Options{Name: "openai"})
//	llm := openai.New("gpt-4o-mini",
//		openai.WithHTTPClient(&http.Client{Transport: limiter.Transport(nil)}),
//		actors.WithInterceptors(limiter.Interceptor()))
//
// The transport reads from the headers of each response how many requests and
// tokens the service allows, and how many are left. The interceptor holds calls
// back before their attempt is made: see [Limiter]. One limiter belongs to one
// account of a service, and is shared by all clients and all runs of the process
// that use it.
//
// The headers read are Retry-After and
//
//	X-Ratelimit-Limit-Requests, -Remaining-Requests, -Reset-Requests   and with Tokens: OpenAI and most others
//	X-Ratelimit-Limit, -Remaining, -Reset                              of a window that is not named
//	X-Ratelimit-Limit-Tokens-Minute, …-Requests-Day                    with the window in the name
//	Anthropic-Ratelimit-Requests-Limit, …-Input-Tokens-Remaining       likewise
//	RateLimit-Policy, RateLimit                                        the IETF draft, in its newer forms and its older
//
// A limiter is in memory, and knows of other processes what the service tells: what
// is left, which they have used, too. They share the limit in that way, and are not
// fair to each other.
package ratelimit
