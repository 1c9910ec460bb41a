package budget

import (
	text "bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

const (
	// maxDigits is the number of digits and points from which a text is not accepted. The parser's time is quadratic in them.
	maxDigits = 100
	// writtenDigits is the number of digits from which a quantity with a large positive exponent takes hours to be written.
	writtenDigits = 19
	// minExponent is the number of digits of such an exponent, and of any negative one, from which a text is not accepted: the power of ten
	// is computed.
	minExponent = 4
	// maxExponent is the number of digits of another exponent from which a text is not accepted. The parser truncates it to 32 bits.
	maxExponent = 10
	// slowExponent is the number of digits of a negative exponent from which a text takes up to 50 times as long to parse as another one.
	slowExponent = 2
	// maxSlow is the number of such texts that JSON may contain.
	maxSlow = 1000
	// maxQuantity is the number of bytes of a quantity that are kept.
	maxQuantity = 40
)

// CheckQuantities returns a *QuantityError if JSON contains a string that takes long to parse as a quantity, or to write again. It
// must be called before JSON of a user is decoded as a type with quantities. Strings must not contain unnecessary escapes: it
// is for JSON that the API server or Remit has encoded.
//
// The parser computes the power of ten of a negative exponent, which takes hours for "1e-2147483647" and cannot be interrupted; it
// truncates the exponent to 32 bits, so large positive ones can become negative; and its time is quadratic in the number of digits. It
// ignores spaces around the text. A quantity with more than 18 digits and a large positive exponent is parsed at once, but takes hours
// to be written. No quantity needs such a text: the smallest is a billionth, and the largest has 19 digits. Short hexadecimal names
// such as "0e100" are accepted. Every object of a user is checked, so it takes a small part of the time of decoding.
func CheckQuantities(json []byte) error {
	slow := 0
	for rest := json; ; {
		start := text.IndexByte(rest, '"')
		if start < 0 {
			return nil
		}
		rest = rest[start+1:]
		length, kind := costOf(rest)
		if kind == isSlow {
			slow++
		}
		if kind == isCostly || slow > maxSlow {
			return &QuantityError{Text: string(rest[:min(length, maxQuantity)]), Many: kind == isSlow}
		}
		rest = rest[length:] // it contains no quotation mark
	}
}

// cost is what a text costs if it is parsed as a quantity.
type cost int

const (
	isCheap cost = iota
	isSlow
	isCostly
)

// costOf returns what the string that JSON continues with costs. The length is that of the string if it is not cheap, and otherwise of
// a part that has been read.
func costOf(json []byte) (length int, _ cost) {
	at := skipSpaces(json, 0)
	if sign := byteAt(json, at); sign == '+' || sign == '-' {
		at++
	}
	begin := at
	at = skipDigits(json, at, '.')
	digits := at - begin
	if digits >= maxDigits {
		if end := text.IndexByte(json[at:], '"'); end >= 0 {
			return at + end, isCostly
		}
	}
	if e := byteAt(json, at); digits == 0 || e != 'e' && e != 'E' {
		return at, isCheap
	}
	at, kind := costOfExponent(json, at+1, digits)
	at = skipSpaces(json, at)
	if byteAt(json, at) != '"' {
		return at, isCheap
	}
	return at, kind
}

// costOfExponent returns where the exponent that begins at a place ends, and what it costs after a number of digits.
func costOfExponent(json []byte, at, digits int) (end int, _ cost) {
	sign := byteAt(json, at)
	if sign == '+' || sign == '-' {
		at++
	}
	limit := maxExponent
	if sign == '-' || digits >= writtenDigits {
		limit = minExponent
	}
	switch end = skipDigits(json, at, '0'); {
	case end-at >= limit:
		return end, isCostly
	case sign == '-' && end-at >= slowExponent:
		return end, isSlow
	}
	return end, isCheap
}

// byteAt returns a byte, or 0 after the last one.
func byteAt(json []byte, at int) byte {
	if at < len(json) {
		return json[at]
	}
	return 0
}

// skipDigits returns where digits end that may be mixed with another byte.
func skipDigits(json []byte, at int, other byte) int {
	for at < len(json) && ('0' <= json[at] && json[at] <= '9' || json[at] == other) {
		at++
	}
	return at
}

// skipSpaces returns where the spaces that the parser ignores end; JSON has no other spaces in strings.
func skipSpaces(json []byte, at int) int {
	for at < len(json) {
		r, size := rune(json[at]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(json[at:])
		}
		if r != ' ' && (r < utf8.RuneSelf || r != '\u0085' && !unicode.Is(unicode.Z, r)) {
			return at
		}
		at += size
	}
	return at
}

// QuantityError is a quantity that takes long to parse.
type QuantityError struct {
	// Text begins as the quantity does, and is of the object's author.
	Text string
	// Many is true if the quantity is accepted, but not more than 1000 of its kind.
	Many bool
}

func (e *QuantityError) Error() string {
	if e.Many {
		return fmt.Sprintf("%q is one of more than %d quantities with a large negative exponent: use at most one digit in it", e.Text, maxSlow)
	}
	return fmt.Sprintf("the value that begins with %q is not accepted as a quantity: use at most 99 digits, and at most 3 digits in the exponent", e.Text)
}
