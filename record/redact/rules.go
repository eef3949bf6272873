package redact

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Rules replace the matches of regular expressions with "(redacted)". Matches that overlap are
// replaced with a single "(redacted)". The zero value hides nothing. Rules are safe for concurrent
// use.
type Rules struct{ rules []rule }

type rule struct {
	pattern *regexp.Regexp
	program *syntax.Prog
	prefix  string // literal prefix of all matches
}

var _ Redaction = (*Rules)(nil)

// New returns rules for regular expressions in the syntax of package regexp. It returns
// an error if a pattern cannot be compiled or can match the empty string, as a* and \b
// do.
//
// If the matches of a pattern have no maximum length, as for password=(?s:.*), a [Stream] holds
// back everything from the beginning of a match to the end of the text.
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

var errEmpty = errors.New("the pattern can match the empty string, and thus everywhere; want a pattern that matches at least one character")

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

// A span is the position of a secret in a text.
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
			shown.WriteString(replacement)
		}
		done = max(done, s.end)
	}
	shown.WriteString(text[done:])
	return shown.String()
}

// Stream implements [Redaction]. Each byte is read about once, no matter how the text is cut into
// pieces. The stream holds back what may be the beginning of a secret, and an incomplete rune.
func (r *Rules) Stream() Stream {
	s := &ruleStream{finders: make([]finder, len(r.rules))}
	for i := range r.rules {
		s.finders[i] = newFinder(&r.rules[i])
	}
	return s
}

type ruleStream struct {
	finders []finder
	text    []byte // text that has not been shown yet
	base    int    // position of text in the complete text
	done    int    // position up to which the text was shown or hidden
	secrets []span // found but not yet hidden, in order
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
		settled -= incompleteLen(s.text)
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

// show returns the redacted text up to the given position.
func (s *ruleStream) show(settled int) string {
	var shown strings.Builder
	n := 0
	for ; n < len(s.secrets) && s.secrets[n].begin < settled; n++ {
		secret := s.secrets[n]
		if secret.begin >= s.done {
			shown.Write(s.text[s.done-s.base : secret.begin-s.base])
			shown.WriteString(replacement)
		}
		s.done = max(s.done, secret.end)
	}
	s.secrets = slices.Delete(s.secrets, 0, n)
	if s.done < settled {
		shown.Write(s.text[s.done-s.base : settled-s.base])
		s.done = settled
	}
	s.discard(min(s.done, settled))
	return shown.String()
}

// discard drops text that is no longer needed. It never copies more than it drops.
func (s *ruleStream) discard(to int) {
	if n := to - s.base; n >= len(s.text)-n {
		s.text = s.text[:copy(s.text, s.text[n:])]
		s.base += n
	}
}
