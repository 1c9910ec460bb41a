package budget

import (
	text "bytes"
	"fmt"
	"iter"
)

// MaxStructures is the number of objects and nulls in an object of a user that is decoded. Each becomes a struct of up to 900 bytes, and
// a list has twice its size while it grows: a ClusterServiceVersion of 1.5 MB whose lists consist of {} took 113 MB. The
// ClusterServiceVersions of test/corpus have at most 1,100.
const MaxStructures = 20_000

// MaxValues is the number of values of any type in such an object. A list without a schema may consist of numbers, each of which adds a
// struct of about 100 bytes, although its type is wrong; in a bundle, which has no schema, one of up to 900.
const MaxValues = 50_000

// MaxLevels is how many levels of lists and objects such an object may have. Decoders refuse more than 10,000 levels, and count from the
// start of what they decode: the API server stores an object with 10,000 levels, because of which a client cannot decode the list or watch
// event that contains the object. The CustomResourceDefinitions of test/corpus have at most 58 levels, and its ClusterServiceVersions 18.
const MaxLevels = 1_000

// CheckStructures returns a *LevelsError if JSON has more than MaxLevels levels, and a *StructuresError if it contains more than
// MaxStructures objects and nulls, or more than MaxValues values. It must be called before JSON of a user is decoded as a Go type.
func CheckStructures(json []byte) error {
	if HasMoreLevels(json, MaxLevels) {
		return &LevelsError{}
	}
	if len(json) <= 3*MaxStructures { // a list of {} has three bytes for each
		return nil
	}
	if n := countOutside(json, MaxStructures, "{", "null"); n > MaxStructures {
		return &StructuresError{MaxStructures}
	}
	if HasMoreValues(json, MaxValues) {
		return &StructuresError{MaxValues}
	}
	return nil
}

// HasMoreValues reports whether JSON contains more than "most" commas outside of strings. Go's decoder adds an entry to a list for each
// value of any type, also if the type is wrong.
func HasMoreValues(json []byte, most int) bool {
	return len(json) > most && countOutside(json, most, ",") > most
}

// HasMoreLevels reports whether lists and objects in JSON are nested more than "most" levels deep. It has no limit itself.
func HasMoreLevels(json []byte, most int) bool {
	if len(json) <= 2*most { // each level has two bytes
		return false
	}
	level := 0
	for part := range outside(json) {
		for _, c := range part {
			switch c {
			case '{', '[':
				if level++; level > most {
					return true
				}
			case '}', ']':
				level--
			}
		}
	}
	return false
}

// countOutside counts words outside of the strings of JSON. It stops when there are more than most.
func countOutside(json []byte, most int, words ...string) (n int) {
	for part := range outside(json) {
		for _, word := range words {
			n += text.Count(part, []byte(word))
		}
		if n > most {
			break
		}
	}
	return n
}

// outside returns the parts of JSON that are not in strings.
func outside(json []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := json; len(rest) > 0; {
			end := text.IndexByte(rest, '"')
			if end < 0 {
				end = len(rest)
			}
			if !yield(rest[:end]) {
				return
			}
			rest = rest[end:]
			rest = rest[lengthOfString(rest):]
		}
	}
}

// lengthOfString returns the number of bytes of the string at the beginning of JSON, with its quotation marks. A string that does not end
// is the rest.
func lengthOfString(json []byte) int {
	for at := 1; at < len(json); {
		end := text.IndexByte(json[at:], '"')
		if end < 0 {
			break
		}
		escapes := 0
		for json[at+end-1-escapes] == '\\' {
			escapes++
		}
		at += end + 1
		if escapes%2 == 0 {
			return at
		}
	}
	return len(json)
}

// StructuresError is an object that consists of too many values.
type StructuresError struct {
	// Most is MaxStructures or MaxValues.
	Most int
}

func (e *StructuresError) Error() string {
	return fmt.Sprintf("more than %d entries of lists and objects together", e.Most)
}

// LevelsError is an object with more than MaxLevels levels.
type LevelsError struct{}

func (e *LevelsError) Error() string {
	return fmt.Sprintf("lists and objects are nested more than %d levels deep", MaxLevels)
}
