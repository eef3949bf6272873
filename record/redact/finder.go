package redact

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// A finder finds the matches of one rule in text that arrives in pieces. In the complete text,
// these are the matches that regexp.FindAllStringIndex finds, and the algorithm is the same (a Pike
// VM). Unlike package regexp, a finder can stop anywhere in the text, and knows where a match may
// have begun.
type finder struct {
	rule *rule
	at   int  // position in the complete text
	prev rune // previous rune; -1 at the beginning

	threads []thread // waiting for the next rune, in order of preference
	found   span     // a match that a preferred thread may still replace; empty if there is none

	// The fields below are reused for each rune. They hold the instructions that are reached, and
	// the threads that stop at the rune.
	reached []int // value of count when each instruction was last reached
	count   int
	ready   []thread
	stack   []uint32
}

type thread struct {
	pc    uint32
	begin int
}

func newFinder(r *rule) finder {
	return finder{rule: r, prev: -1, reached: make([]int, len(r.program.Inst))}
}

// incompleteLen returns the number of bytes of an incomplete rune at the end of text.
func incompleteLen(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return n
			}
			return 0
		}
	}
	return 0
}

// settled returns the position before which all secrets are known.
func (f *finder) settled() int {
	switch {
	case f.found.end > 0:
		return f.found.begin
	case len(f.threads) > 0:
		return f.threads[0].begin
	}
	return f.at
}

// mayBeEmpty reports whether the rule can match the empty string.
func (f *finder) mayBeEmpty() bool {
	const anywhere = ^syntax.EmptyOp(0)
	f.count++
	f.follow(thread{uint32(f.rule.program.Start), 0}, anywhere) //nolint:gosec // small: an index in the program
	return slices.ContainsFunc(f.ready, func(t thread) bool { return f.rule.program.Inst[t.pc].Op == syntax.InstMatch })
}

// advance reads text, whose first byte is at position base, and appends the matches to found. If
// ends is true, no more text follows.
func (f *finder) advance(text []byte, base int, ends bool, found []span) []span {
	for {
		f.skip(text, base)
		rest := text[f.at-base:]
		switch {
		case len(rest) > 0 && (ends || utf8.FullRune(rest)):
			r, size := utf8.DecodeRune(rest)
			f.step(r)
			f.at, f.prev = f.at+size, r
		case ends && (len(f.threads) > 0 || f.found.end > 0):
			f.step(-1)
			f.threads = f.threads[:0]
		default:
			return found
		}
		if len(f.threads) == 0 && f.found.end > 0 { // final, since no thread can replace it
			found = append(found, f.found)
			if f.at != f.found.end {
				f.at = f.found.end
				f.prev, _ = utf8.DecodeLastRune(text[:f.at-base])
			}
			f.found = span{}
		}
	}
}

// skip moves to the next position where a match can begin, if all matches have a common
// prefix.
func (f *finder) skip(text []byte, base int) {
	if f.rule.prefix == "" || len(f.threads) > 0 {
		return
	}
	rest := text[f.at-base:]
	n := bytes.Index(rest, []byte(f.rule.prefix))
	if n < 0 {
		n = max(0, len(rest)-len(f.rule.prefix)+1)
		for n > 0 && n < len(rest) && !utf8.RuneStart(rest[n]) {
			n--
		}
		n -= incompleteLen(rest[:n])
	}
	if n > 0 {
		f.at += n
		f.prev, _ = utf8.DecodeLastRune(text[:f.at-base])
	}
}

// step processes a rune, or -1 at the end of the text.
func (f *finder) step(r rune) {
	f.count++
	f.ready = f.ready[:0]
	context := syntax.EmptyOpContext(f.prev, r)
	for _, t := range f.threads {
		f.follow(t, context)
	}
	if f.found.end == 0 {
		f.follow(thread{uint32(f.rule.program.Start), f.at}, context) //nolint:gosec // small: an index in the program
	}
	f.threads = f.threads[:0]
	for _, t := range f.ready {
		inst := &f.rule.program.Inst[t.pc]
		if inst.Op == syntax.InstMatch {
			f.found = span{t.begin, f.at}
			return // the remaining threads are less preferred
		}
		if r >= 0 && inst.MatchRune(r) {
			f.threads = append(f.threads, thread{inst.Out, t.begin})
		}
	}
}

// follow adds the threads that t leads to before the next rune is read, in order of preference.
func (f *finder) follow(t thread, context syntax.EmptyOp) {
	f.stack = append(f.stack[:0], t.pc)
	for len(f.stack) > 0 {
		pc := f.stack[len(f.stack)-1]
		f.stack = f.stack[:len(f.stack)-1]
		if f.reached[pc] == f.count {
			continue
		}
		f.reached[pc] = f.count
		switch inst := &f.rule.program.Inst[pc]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			f.stack = append(f.stack, inst.Arg, inst.Out)
		case syntax.InstCapture, syntax.InstNop:
			f.stack = append(f.stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^context == 0 { //nolint:gosec // a small set of flags
				f.stack = append(f.stack, inst.Out)
			}
		case syntax.InstFail:
		default:
			f.ready = append(f.ready, thread{pc, t.begin})
		}
	}
}
