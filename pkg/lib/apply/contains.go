package apply

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Has reports whether a live object has every field of want, as Contains does, but compares the rules of roles
// exactly: an additional field of a rule, such as resourceNames, makes the rule narrower.
func Has(live, want map[string]any) bool {
	rules, _ := want["rules"].([]any)
	return Contains(live, want) && (len(rules) == 0 || Contains(rules, live["rules"]))
}

// Contains reports whether live has every field of want with the same value. Additional fields of live (defaults,
// status, other labels) are ignored. Lists must have the same length; their elements are compared in the same way. A
// false negative only causes an apply that changes nothing.
func Contains(live, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return len(w) == 0 && live == nil
		}
		for k, v := range w {
			if !Contains(l[k], v) {
				return false
			}
		}
		return true
	case []any:
		l, ok := live.([]any)
		if !ok || len(l) != len(w) {
			return len(w) == 0 && live == nil
		}
		for i := range w {
			if !Contains(l[i], w[i]) {
				return false
			}
		}
		return true
	default:
		return equality.Semantic.DeepEqual(live, want) || sameNumber(live, want)
	}
}

// sameNumber reports whether two JSON numbers are equal, even if they were decoded into different Go types.
func sameNumber(a, b any) bool {
	x, okX := number(a)
	y, okY := number(b)
	return okX && okY && x == y
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case int:
		return float64(n), true
	case int32:
		return float64(n), true
	case float64:
		return n, true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}
