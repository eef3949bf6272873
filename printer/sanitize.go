package printer

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxMarks is the maximum number of combining marks on one character. With more marks,
// a character grows into the lines above and below.
const maxMarks = 8

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// maxPerCharacter is the maximum number of bytes read per character shown. It limits
// the time spent on megabytes of blanks or marks.
const maxPerCharacter = 64

// appendClean appends s as part of one line: white space becomes a single blank,
// characters that are not graphic become escapes, and marks beyond maxMarks are
// dropped. After limit characters, it appends the ellipsis instead of the rest of s.
func appendClean(dst []byte, s string, limit int, ellipsis string) []byte {
	blank, count, marks, most := false, 0, 0, limit*maxPerCharacter
	for i := 0; i < len(s); {
		if i > most {
			return append(dst, ellipsis...)
		}
		c, size := utf8.DecodeRuneInString(s[i:])
		if unicode.IsSpace(c) {
			blank, i = count > 0, i+size
			continue
		}
		if count >= limit {
			return append(dst, ellipsis...)
		}
		if blank {
			dst, count, blank = append(dst, ' '), count+1, false
		}
		if !unicode.Is(unicode.M, c) {
			marks = 0
		} else if marks++; marks > maxMarks {
			i += size
			continue
		}
		before := len(dst)
		dst = appendEscaped(dst, c, s[i:i+size])
		count += utf8.RuneCount(dst[before:])
		i += size
	}
	return dst
}

// appendEscaped appends the character c, whose encoded form is raw, or an escape for it.
func appendEscaped(dst []byte, c rune, raw string) []byte {
	switch {
	case c == utf8.RuneError && len(raw) == 1:
		return fmt.Appendf(dst, `\x%02x`, raw[0])
	case unicode.IsGraphic(c) || c == zeroWidthJoiner || c == zeroWidthNonJoiner:
		return append(dst, raw...)
	case c < 0x80:
		return fmt.Appendf(dst, `\x%02x`, c)
	case c < 0x10000:
		return fmt.Appendf(dst, `\u%04x`, c)
	}
	return fmt.Appendf(dst, `\U%08x`, c)
}
