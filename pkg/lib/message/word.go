package message

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxWord is the number of bytes of a word that an error shows.
const maxWord = 100

// IsWord reports whether a text contains neither white space nor unsafe characters.
func IsWord(text string) bool { return IsPlain(text) && !strings.ContainsFunc(text, unicode.IsSpace) }

// Word returns a text as it is if it is a word; otherwise, its beginning in quotes.
func Word(text string) string {
	if IsWord(text) {
		return text
	}
	return strconv.Quote(Start(text))
}

// CheckWord returns an error if a text is not a word. The error quotes the text, after the name of its field.
func CheckWord(field, text string) error {
	if IsWord(text) {
		return nil
	}
	return fmt.Errorf("%s %q contains white space or control characters", field, Start(text))
}

// Start returns the beginning of a text that an error quotes.
func Start(text string) string { return text[:min(len(text), maxWord)] }
