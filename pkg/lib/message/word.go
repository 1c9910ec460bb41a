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

// MaxWord is the number of bytes of the longest name, or part of a name, that a stranger may write. Reports, errors and keys repeat such
// strings, as often as a list is long: a name of 1 MB in an object with 1,000 references took a gigabyte. No name that the API server
// accepts for an object of a usual kind has more than 253.
const MaxWord = 512

// CheckWord returns an error if a text is not a word, or too long for one. The error quotes the text, after the name of its field.
func CheckWord(field, text string) error {
	if len(text) > MaxWord {
		return fmt.Errorf("%s %q... has %d bytes; at most %d are allowed", field, Start(text), len(text), MaxWord)
	}
	if IsWord(text) {
		return nil
	}
	return fmt.Errorf("%s %q contains white space or control characters", field, Start(text))
}

// Start returns the beginning of a text that an error quotes.
func Start(text string) string { return text[:min(len(text), maxWord)] }
