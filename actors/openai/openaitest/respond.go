package openaitest

import "errors"

// Respond returns a step that answers with the step returned by fn. Combined with Forever, it
// serves any number of conversations in any order.
//
// fn is called on the goroutine that serves the request; for a repeated step, it may be called
// concurrently. For an unexpected request, fn should return Refuse or the zero Step. fn must not
// return a Repeat or Forever step, and must not modify the request.
func Respond(fn func(Request) Step) Step {
	if fn == nil {
		panic("openaitest: Respond(nil)")
	}
	return Step{player: responder(fn)}
}

type responder func(Request) Step

func (fn responder) play(x *exchange) {
	var st Step
	err := guard("Respond", func() error {
		st = fn(x.req)
		if st.times != 0 {
			return errors.New("Respond returned a step that repeats: repeat the Respond step instead")
		}
		return nil
	})
	if err != nil {
		x.refuse(err.Error())
		return
	}
	x.play(st)
}

func (responder) String() string { return "Respond" }

// Refuse returns a step that treats its request as unexpected: it answers with status
// 400 and the reason, and reports the request.
func Refuse(reason string) Step {
	return Step{player: refusal(reason)}
}

type refusal string

func (r refusal) play(x *exchange) { x.refuse(string(r)) }
func (r refusal) String() string   { return "refusal: " + string(r) }
