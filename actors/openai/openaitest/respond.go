package openaitest

import "errors"

// Respond returns a step that answers with the step fn returns. With Forever
// it serves any number of conversations in any order, each by what it asks.
//
// fn runs on the goroutine of its request: fn of a repeated step may run many
// times at once. It returns Refuse, or the zero Step, for a request it does
// not expect, and must not return a Repeat or Forever step. It must not change
// the request.
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

// Refuse returns a step that treats its request as unexpected: it answers
// status 400 with reason in the error, and reports it.
func Refuse(reason string) Step {
	return Step{player: refusal(reason)}
}

type refusal string

func (r refusal) play(x *exchange) { x.refuse(string(r)) }
func (r refusal) String() string   { return "refusal: " + string(r) }
