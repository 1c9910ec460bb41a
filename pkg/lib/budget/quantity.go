package budget

import (
	"fmt"
	"regexp"
)

// costlyQuantity matches a JSON string that takes long to parse as a quantity, or to write again. The parser computes the power of ten
// of a negative exponent, which takes hours for "1e-2147483647" and cannot be interrupted; it truncates the exponent to 32 bits, so
// large positive ones can become negative; and its time is quadratic in the number of digits. It ignores spaces around the text. A
// quantity with more than 18 digits and a large positive exponent is parsed at once, but takes hours to be written. No quantity
// needs such a text: the smallest is a billionth, and the largest has 19 digits. Short hexadecimal names such as "0e100" are not
// matched.
var costlyQuantity = regexp.MustCompile(`"` + spaces +
	`[+-]?(?:(?:[0-9.]+[eE](?:-[0-9]{4,}|[+]?[0-9]{10,})|[0-9.]{19,}[eE][+]?[0-9]{4,})` + spaces + `|[0-9.]{100,}[^"]*)"`)

// spaces matches what the parser ignores; JSON has no other spaces in strings.
const spaces = `[\x{85}\p{Z}]*`

// CheckQuantities returns a *QuantityError if JSON contains a string that takes long to parse as a quantity. It must be called
// before JSON of a user is decoded as a type with quantities. Strings must not contain unnecessary escapes: it is for JSON that
// the API server or Remit has encoded.
func CheckQuantities(json []byte) error {
	if found := costlyQuantity.Find(json); found != nil {
		return &QuantityError{Text: string(found[1:min(len(found)-1, maxQuantity)])}
	}
	return nil
}

// maxQuantity is the number of bytes of a quantity that are kept.
const maxQuantity = 40

// QuantityError is a quantity that takes long to parse.
type QuantityError struct {
	// Text begins as the quantity does, and is of the object's author.
	Text string
}

func (e *QuantityError) Error() string {
	return fmt.Sprintf("the value that begins with %q is not accepted as a quantity: use at most 99 digits, and at most 3 digits in the exponent", e.Text)
}
