package ratelimit

import "slices"

// A queue holds the waiting tickets. Runs take turns.
type queue struct {
	runs []*runTickets // in the order of their turns
}

// runTickets holds the tickets of one run, oldest first. There is always at least one.
type runTickets struct {
	run     string
	tickets []*ticket
}

func (q *queue) push(t *ticket) {
	for _, w := range q.runs {
		if w.run == t.run {
			w.tickets = append(w.tickets, t)
			return
		}
	}
	q.runs = append(q.runs, &runTickets{t.run, []*ticket{t}})
}

// pushFront puts a ticket, and its run, in front of all others.
func (q *queue) pushFront(t *ticket) {
	own := &runTickets{t.run, []*ticket{t}}
	for i, w := range q.runs {
		if w.run == t.run {
			own.tickets = append(own.tickets, w.tickets...)
			q.runs = slices.Delete(q.runs, i, i+1)
			break
		}
	}
	q.runs = slices.Insert(q.runs, 0, own)
}

// first returns the ticket whose turn it is, or nil if there is none.
func (q *queue) first() *ticket {
	if len(q.runs) == 0 {
		return nil
	}
	return q.runs[0].tickets[0]
}

// pop removes the first ticket and moves its run to the end of the queue.
func (q *queue) pop() {
	w := q.runs[0]
	q.runs = q.runs[1:]
	if w.tickets = w.tickets[1:]; len(w.tickets) > 0 {
		q.runs = append(q.runs, w)
	}
}

func (q *queue) remove(t *ticket) {
	for i, w := range q.runs {
		at := slices.Index(w.tickets, t)
		if at < 0 {
			continue
		}
		if w.tickets = slices.Delete(w.tickets, at, at+1); len(w.tickets) == 0 {
			q.runs = slices.Delete(q.runs, i, i+1)
		}
		return
	}
}

// all returns all waiting tickets.
func (q *queue) all() (all []*ticket) {
	for _, w := range q.runs {
		all = append(all, w.tickets...)
	}
	return all
}

func (q *queue) len() (n int) {
	for _, w := range q.runs {
		n += len(w.tickets)
	}
	return n
}

// before returns how many requests and tokens are expected to be sent before the
// ticket.
func (q *queue) before(t *ticket) (requests, tokens float64) {
	turn, own := 0, 0 // index of the ticket in its run, and of its run in the queue
	for i, w := range q.runs {
		if at := slices.Index(w.tickets, t); at >= 0 {
			turn, own = at, i
		}
	}
	for i, w := range q.runs {
		n := turn
		if i < own {
			n++
		}
		for _, other := range w.tickets[:min(n, len(w.tickets))] {
			requests, tokens = requests+1, tokens+other.tokens
		}
	}
	return requests, tokens
}
