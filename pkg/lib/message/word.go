package message

import (
	"fmt"
	"strings"
	"unicode"
)

// maxWord is the number of bytes of a word that an error shows.
const maxWord = 100

// IsWord reports whether a text contains neither white space nor unsafe characters.
func IsWord(text string) bool { return IsPlain(text) && !strings.ContainsFunc(text, unicode.IsSpace) }

// CheckWord returns an error if a text is not a word. The error quotes the text, after the name of its field.
func CheckWord(field, text string) error {
	if IsWord(text) {
		return nil
	}
	return fmt.Errorf("%s %q contains white space or control characters", field, Start(text))
}

// Start returns the beginning of a text that an error quotes.
func Start(text string) string { return text[:min(len(text), maxWord)] }
