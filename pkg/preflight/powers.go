package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/remit-olm/remit/pkg/rbac"
)

// Limits of ClusterAdmin.
const (
	// maxPowerCauses bounds what is named for one power.
	maxPowerCauses = 2
	// maxPowerCause bounds, in bytes, what is repeated of one cause: it contains a bundle's names.
	maxPowerCause = 256
)

// ClusterAdmin says, in one line, that whoever holds what is missing can obtain everything, and why; "" where that is
// not so.
func (r Report) ClusterAdmin() string {
	causes := map[string]map[string]bool{}
	for _, f := range r.Findings {
		if f.Namespace != rbac.ClusterScope || f.Elsewhere {
			continue
		}
		for _, power := range rbac.Powers(f.Missing) {
			if causes[power] == nil {
				causes[power] = map[string]bool{}
			}
			causes[power][f.Cause] = true
		}
	}
	if len(causes) == 0 {
		return ""
	}
	var why []string
	for _, power := range slices.Sorted(maps.Keys(causes)) {
		why = append(why, fmt.Sprintf("%s (%s)", power, causesText(slices.Sorted(maps.Keys(causes[power])))))
	}
	return "What is asked for amounts to cluster-admin: " + strings.Join(why, ", ") + "."
}

func causesText(causes []string) string {
	var out []string
	for _, cause := range causes[:min(len(causes), maxPowerCauses)] {
		cause = oneLine(cause)
		if len(cause) > maxPowerCause {
			cause = strings.ToValidUTF8(cause[:maxPowerCause], "") + "…"
		}
		out = append(out, cause)
	}
	if more := len(causes) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}
