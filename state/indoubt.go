package state

// An InDoubtAnswer answers the question about a call in doubt (see
// [core.InDoubtAsk] and [core.Question.InDoubt]). In JSON it is one of
//
//	{"decision": "completed", "output": …}
//	{"decision": "run_again"}
//	{"decision": "failed", "message": "why"}
type InDoubtAnswer struct {
	Decision string `json:"decision"`
	Output   any    `json:"output"` // of a call that completed
	Message  string `json:"message"`
}

// InDoubtCompleted answers that the call took effect: it completes with this
// output, which must have the type of the call's. Neither handler nor
// postconditions run.
func InDoubtCompleted(output any) InDoubtAnswer {
	return InDoubtAnswer{Decision: "completed", Output: output}
}

// InDoubtRunAgain answers that the attempt is to be made again. It does not
// count as another one, also where it was the last.
func InDoubtRunAgain() InDoubtAnswer { return InDoubtAnswer{Decision: "run_again"} }

// InDoubtFailed answers that the call is to fail, with [core.ErrInDoubt] and the
// message.
func InDoubtFailed(message string) InDoubtAnswer {
	return InDoubtAnswer{Decision: "failed", Message: message}
}
