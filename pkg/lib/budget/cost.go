package budget

import stdbytes "bytes"

// Measured memory, in bytes, that decoding needs per byte and per value of a JSON text.
const jsonBytes, jsonValue = 4, 128

// JSONCost estimates the memory needed to decode a JSON text.
func JSONCost(text []byte) int64 {
	return jsonBytes*int64(len(text)) + jsonValue*Count(text, ",:[{")
}

// Count returns an upper bound for the number of values, based on the characters that start or separate them.
func Count(text []byte, indicators string) int64 {
	n := 1
	for i := range len(indicators) {
		n += stdbytes.Count(text, []byte(indicators[i:i+1]))
	}
	return int64(n)
}
