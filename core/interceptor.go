package core

import "github.com/reprise-go/reprise/internal/engine"

// An Interceptor is called around the attempts of calls: of all calls of a run
// (state.WithInterceptors), of one actor ([Spec].Interceptors) or of one event
// ([ExecutionEvent.WithInterceptors]). Those of the run are outermost, and of
// each list the first is. Groups and their branches have no interceptors; the
// calls inside them do. A nil function does nothing.
//
// It sees calls without their types, so that one interceptor can serve all
// actors. What needs the types is a function around the handler, which is given
// to the constructor of the actor in place of the handler; there is no API for
// that.
//
// Interceptors are for many goroutines and belong to the process: they are not
// recorded, and a run may be resumed with others. They are not called for calls
// that are recalled, for handlers that run again only to compare, and in runs
// that are replayed or validated. A handler must not depend on a value that
// only an interceptor puts into its context.
type Interceptor = engine.Interceptor

// A CallInfo is an attempt of a call as an [Interceptor] sees it. Its methods
// are for the goroutine that called the interceptor, and until that returns.
type CallInfo = engine.CallInfo
