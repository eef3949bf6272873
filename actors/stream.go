package actors

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/reprise-go/reprise/core/live"
)

// Stream calls actor with in, and yields the deltas that the call and the calls inside it emit, as
// [live.Watch] does:
//
//	var answer actors.Answer
//	for delta, err := range actors.Stream(ctx, assistant, actors.Ask("Hello"), &answer) {
//		if err != nil {
//			return err // the call's error; nothing follows
//		}
//		if delta.Part == live.PartText {
//			fmt.Print(delta.Text)
//		}
//	}
//
// out is set when the sequence ends. The call never waits for the loop: if the loop is slow, deltas
// of one text are joined.
//
// Leaving the loop early does not end the call, since ending it would be recorded as a failure. The
// loop statement ends only when the call has ended and out is set. If the call failed, out is then
// the zero value, and only the run's records contain the error. To end the call earlier, interrupt
// the run. Each range over the sequence makes a new call.
func Stream[In, Out any](ctx context.Context, actor Actor[In, Out], in In, out *Out) iter.Seq2[live.Delta, error] {
	return func(yield func(live.Delta, error) bool) {
		switch {
		case actor == nil:
			yield(live.Delta{}, errors.New("actors: Stream: the actor is nil"))
			return
		case out == nil:
			yield(live.Delta{}, errors.New("actors: Stream: out is nil; it receives the call's output"))
			return
		}
		q := &deltaQueue{ready: make(chan struct{}, 1)}
		done := make(chan struct{})
		result, err := *new(Out), errEnded
		event := actor.Event() // not on the new goroutine, where a panic would end the process
		go func() {
			defer close(done)
			result, err = event.Execute(live.Watch(ctx, q.put), in)
		}()
		defer func() { <-done }() // even if the body of the loop panics
		for ended := false; !ended; {
			select {
			case <-q.ready:
			case <-done:
				ended = true
			}
			for _, d := range q.take() {
				if !yield(d.Delta, nil) {
					q.close()
					<-done
					*out = result
					return
				}
			}
		}
		*out = result
		if err != nil {
			yield(live.Delta{}, err)
		}
	}
}

// errEnded is the error of a call whose goroutine ended without a result.
var errEnded = errors.New("actors: the call ended its goroutine without returning")

// deltaQueue holds deltas until the loop takes them.
type deltaQueue struct {
	ready chan struct{} // holds a token if there are deltas to take

	mu     sync.Mutex
	deltas []joinedDelta
	closed bool
}

// joinedDelta is a delta whose text may still grow.
type joinedDelta struct {
	live.Delta
	text []byte // the whole text if several deltas were joined; nil otherwise
}

func (q *deltaQueue) put(d live.Delta) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if n := len(q.deltas); n > 0 && continues(&q.deltas[n-1].Delta, &d) {
		q.deltas[n-1].join(d.Text)
	} else {
		q.deltas = append(q.deltas, joinedDelta{Delta: d})
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (j *joinedDelta) join(text string) {
	if j.text == nil {
		j.text = append(j.text, j.Text...)
	}
	j.text = append(j.text, text...)
}

// continues reports whether d continues the text that last belongs to.
func continues(last, d *live.Delta) bool {
	switch d.Part {
	case live.PartText, live.PartReasoning, live.PartToolCall:
		return d.Name == "" && d.ID == "" && d.Part == last.Part && d.Index == last.Index &&
			d.Attempt == last.Attempt && d.Address == last.Address && d.RunID == last.RunID
	}
	return false
}

func (q *deltaQueue) take() []joinedDelta {
	q.mu.Lock()
	defer q.mu.Unlock()
	deltas := q.deltas
	q.deltas = nil
	for i := range deltas {
		if d := &deltas[i]; d.text != nil {
			d.Text = string(d.text)
		}
	}
	return deltas
}

func (q *deltaQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.deltas = true, nil
}
