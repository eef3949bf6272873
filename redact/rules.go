package redact

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Rules hide what matches one of several regular expressions: "(redacted)" replaces it.
// Where matches of two overlap, one "(redacted)" replaces both. The zero Rules hide nothing.
type Rules struct{ rules []rule }

type rule struct {
	pattern *regexp.Regexp
	program *syntax.Prog
	prefix  string // of all matches
}

var _ Redaction = (*Rules)(nil)

// New returns the rules of regular expressions, in the syntax of package regexp. It fails
// for a pattern that cannot be compiled, and for one that can match without a character, as
// a* and \b do.
//
// A pattern that may go on without end, such as password=(?s:.*), holds back all that
// follows its beginning until the text ends.
func New(patterns ...string) (*Rules, error) {
	r := new(Rules)
	for _, pattern := range patterns {
		one, err := compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("redact: %q: %w", pattern, err)
		}
		r.rules = append(r.rules, one)
	}
	return r, nil
}

var errEmpty = errors.New("it can match an empty text, and so everywhere; want one that matches at least a character")

func compile(pattern string) (rule, error) {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return rule{}, err
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return rule{}, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return rule{}, err
	}
	prefix, _ := compiled.LiteralPrefix()
	one := rule{compiled, program, prefix}
	if f := newFinder(&one); f.mayBeEmpty() {
		return rule{}, errEmpty
	}
	return one, nil
}

// span is where a secret is in a text.
type span struct{ begin, end int }

// Text implements [Redaction].
func (r *Rules) Text(text string) string {
	var secrets []span
	for i := range r.rules {
		for _, at := range r.rules[i].pattern.FindAllStringIndex(text, -1) {
			secrets = append(secrets, span{at[0], at[1]})
		}
	}
	if len(secrets) == 0 {
		return text
	}
	slices.SortFunc(secrets, func(a, b span) int { return a.begin - b.begin })
	var shown strings.Builder
	done := 0
	for _, s := range secrets {
		if s.begin >= done {
			shown.WriteString(text[done:s.begin])
			shown.WriteString(hidden)
		}
		done = max(done, s.end)
	}
	shown.WriteString(text[done:])
	return shown.String()
}

// Stream implements [Redaction]. Each piece is read once, and nothing is searched again: a
// stream costs the same however it is cut. It holds back what may be the beginning of a
// secret, and what of a rune has come.
func (r *Rules) Stream() Stream {
	s := &ruleStream{finders: make([]finder, len(r.rules))}
	for i := range r.rules {
		s.finders[i] = newFinder(&r.rules[i])
	}
	return s
}

type ruleStream struct {
	finders []finder
	text    []byte // what is not shown yet
	base    int    // of text, in all of the text
	done    int    // what is shown, or hidden
	secrets []span // found, and not hidden yet, in order
}

// Add implements [Stream].
func (s *ruleStream) Add(piece string) string {
	s.text = append(s.text, piece...)
	return s.advance(false)
}

// End implements [Stream].
func (s *ruleStream) End() string { return s.advance(true) }

func (s *ruleStream) advance(ends bool) string {
	settled := s.base + len(s.text)
	if !ends {
		settled -= incomplete(s.text)
	}
	found := len(s.secrets)
	for i := range s.finders {
		f := &s.finders[i]
		s.secrets = f.advance(s.text, s.base, ends, s.secrets)
		settled = min(settled, f.settled())
	}
	if len(s.secrets) > found {
		slices.SortFunc(s.secrets, func(a, b span) int { return a.begin - b.begin })
	}
	return s.show(settled)
}

// show returns what is to be shown of the text up to there.
func (s *ruleStream) show(settled int) string {
	var shown strings.Builder
	over := 0
	for ; over < len(s.secrets) && s.secrets[over].begin < settled; over++ {
		secret := s.secrets[over]
		if secret.begin >= s.done {
			shown.Write(s.text[s.done-s.base : secret.begin-s.base])
			shown.WriteString(hidden)
		}
		s.done = max(s.done, secret.end)
	}
	s.secrets = slices.Delete(s.secrets, 0, over)
	if s.done < settled {
		shown.Write(s.text[s.done-s.base : settled-s.base])
		s.done = settled
	}
	s.forget(min(s.done, settled))
	return shown.String()
}

// forget drops what is not needed any more. It copies no more than it drops.
func (s *ruleStream) forget(to int) {
	if n := to - s.base; n >= len(s.text)-n {
		s.text = s.text[:copy(s.text, s.text[n:])]
		s.base += n
	}
}
