package main

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// printable returns s on one line, with control characters and invisible characters escaped. This
// is needed because text in runs comes from models and tools, and cannot be trusted.
func printable(s string) string {
	if !strings.ContainsFunc(s, isSpecial) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isSpecial(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isSpecial(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// shellWord returns s quoted as one argument of a POSIX shell.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, needsQuotes) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func needsQuotes(c rune) bool {
	return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._/:@%+,=-", c)
}

// withoutEmptyColumns removes the columns that are empty in all rows after the header. It keeps
// the columns before column first.
func withoutEmptyColumns(rows [][]string, first int) [][]string {
	for column := len(rows[0]) - 1; column >= first; column-- {
		isSet := func(row []string) bool { return row[column] != "" }
		if slices.ContainsFunc(rows[1:], isSet) {
			continue
		}
		for i := range rows {
			rows[i] = slices.Delete(rows[i], column, column+1)
		}
	}
	return rows
}

// writeTable writes rows in aligned columns.
func (a *app) writeTable(rows [][]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			cell = printable(cell)
			if cell == "" {
				cell = "-"
			}
			end := "\t"
			if i == len(row)-1 {
				end = "\n"
			}
			if _, err := w.Write([]byte(cell + end)); err != nil {
				return &outputError{err}
			}
		}
	}
	if err := w.Flush(); err != nil {
		return &outputError{err}
	}
	return nil
}

// writeJSON writes v as an indented JSON document.
func (a *app) writeJSON(v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if _, err := a.out.Write(append(data, '\n')); err != nil {
		return &outputError{err}
	}
	return nil
}

// timeText formats a time in UTC, in the form that flags accept.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// plural returns a count with its noun, such as "1 run" or "2 runs".
func plural[N int | uint64](n N, what string) string {
	text := strconv.FormatUint(uint64(n), 10) + " " + what
	if n != 1 {
		text += "s"
	}
	return text
}
