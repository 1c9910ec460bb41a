package csv

import (
	"encoding/json"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/lib/status"
)

// Limits in bytes on the dependents in the status of a ClusterServiceVersion. The API server does not store objects
// larger than 1.5 MiB, and a CSV with thousands of rules is close to this size even without dependents.
const (
	maxObject     = 1_400_000
	maxDependents = 256 << 10
	minDependents = 16 << 10
	// dependentWeight is the size of an entry without its message.
	dependentWeight = 100
)

// shown returns the requirements for the status. If the dependents do not all fit, unsatisfied rules come first, and
// the number of omitted dependents is reported. Rules are never truncated.
func (s *scope) shown() []operatorsv1alpha1.RequirementStatus {
	total, with := 0, 0
	for _, r := range s.requirements {
		if len(r.Dependents) > 0 {
			with++
			total += weigh(r.Dependents)
		}
	}
	if total <= minDependents || total <= s.room() {
		return s.requirements
	}
	out := slices.Clone(s.requirements)
	for i := range out {
		out[i].Dependents = fit(out[i].Dependents, s.room()/with)
	}
	return out
}

// asLines returns the requirements with each message as one line.
func asLines(requirements []operatorsv1alpha1.RequirementStatus) []operatorsv1alpha1.RequirementStatus {
	out := slices.Clone(requirements)
	for i := range out {
		out[i].Message = status.Text(out[i].Message)
		out[i].Dependents = slices.Clone(out[i].Dependents)
		for j := range out[i].Dependents {
			out[i].Dependents[j].Message = status.Text(out[i].Dependents[j].Message)
		}
	}
	return out
}

// room returns the size in bytes that is available for all dependents.
func (s *scope) room() int {
	spec, err := json.Marshal(s.csv.Spec)
	if err != nil {
		return minDependents // cannot happen because the spec was decoded from JSON
	}
	return min(max(maxObject-len(spec), minDependents), maxDependents)
}

// weigh returns the number of bytes that dependents add to the JSON of an object, assuming maximal escaping.
func weigh(dependents []operatorsv1alpha1.DependentStatus) int {
	total := 0
	for i := range dependents {
		message, _ := json.Marshal(dependents[i].Message) // encoding a string cannot fail
		total += dependentWeight + len(message)
	}
	return total
}

func fit(dependents []operatorsv1alpha1.DependentStatus, limit int) []operatorsv1alpha1.DependentStatus {
	if weigh(dependents) <= limit {
		return dependents
	}
	sorted := slices.Clone(dependents)
	slices.SortStableFunc(sorted, func(a, b operatorsv1alpha1.DependentStatus) int {
		return rank(a) - rank(b)
	})
	var out []operatorsv1alpha1.DependentStatus
	left := [2]int{}
	for i, d := range sorted {
		if limit -= weigh(sorted[i : i+1]); limit < 0 {
			left[rank(d)]++
			continue
		}
		out = append(out, d)
	}
	for i, n := range left {
		if n > 0 {
			out = append(out, dependent(i == 1, fmt.Sprintf("and %d more", n)))
		}
	}
	return out
}

// rank orders unsatisfied entries before satisfied ones.
func rank(d operatorsv1alpha1.DependentStatus) int {
	if d.Status == operatorsv1alpha1.DependentStatusReasonSatisfied {
		return 1
	}
	return 0
}
