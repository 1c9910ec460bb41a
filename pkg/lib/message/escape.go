package message

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsPlain reports whether a text contains no control characters, no characters that are invisible, break lines or change the
// direction of text, and no invalid UTF-8.
func IsPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, isUnsafe)
}

// brailleBlank is the only character that looks like white space and is in none of the tables of isUnsafe.
const brailleBlank = '\u2800'

// isUnsafe reports whether a terminal, a browser or a YAML parser could interpret the character, or a reader not see it.
func isUnsafe(r rune) bool {
	return unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == brailleBlank
}

// OneLine replaces line breaks, and the white space around them, and tabs with one space, and other unsafe characters and
// invalid UTF-8 with U+FFFD.
func OneLine(text string) string {
	if IsPlain(text) {
		return text
	}
	var out strings.Builder
	gap := false
	for _, r := range strings.ToValidUTF8(text, string(utf8.RuneError)) {
		switch {
		case isUnsafe(r) && unicode.IsSpace(r):
			gap = true
			continue
		case gap && r == ' ':
			continue
		case gap:
			out.WriteByte(' ')
		}
		if gap = false; isUnsafe(r) {
			r = utf8.RuneError
		}
		out.WriteRune(r)
	}
	if gap {
		out.WriteByte(' ')
	}
	return out.String()
}

// Printable replaces unsafe characters, except line breaks and tabs, and invalid UTF-8 with U+FFFD.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !isUnsafe(r) {
			return r
		}
		return utf8.RuneError
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

// opening matches the beginning of a line that YAML or Markdown could interpret: a document or its end, a directive, a comment,
// a mapping in braces, a key that objects have, or that is quoted or tagged; a block of code, HTML, a heading, a quotation or a
// table.
var opening = regexp.MustCompile("^ *(---|\\.\\.\\.|===|```|~~~|[#%{<>|&*!?]|(apiVersion|kind|items) *:|\"[^ ]*\" *:|'[^ ]*' *:)")

// rule matches an indented line with an RBAC rule, which is shown as it is. It is closed in that line, and no object has only these
// keys.
var rule = regexp.MustCompile(`^ +\{((apiGroups|resources|resourceNames|nonResourceURLs|verbs): \[("[^"\\]*"(, )?)*\](, )?)+\}$`)

// guard makes a line harmless at whose beginning a string of others is.
func guard(line string) string {
	if opening.MatchString(line) {
		return `\` + line
	}
	return line
}
