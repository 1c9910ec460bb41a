package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Limits of ClusterAdmin.
const (
	// maxPowerCauses is the maximum number of causes that are listed for one power.
	maxPowerCauses = 2
	// maxPowerCause is the maximum length, in bytes, of one cause, which contains names from a bundle.
	maxPowerCause = 256
)

// ClusterAdmin explains, in one line, why an account with the missing rules could obtain every permission. It returns
// "" if the account could not.
func (r Report) ClusterAdmin() string {
	causes := map[string]map[string]bool{}
	for _, f := range r.Findings {
		if f.Namespace != rbac.ClusterScope || f.Hidden {
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
	return "The requested permissions amount to cluster-admin: " + strings.Join(why, ", ") + "."
}

func causesText(causes []string) string {
	var out []string
	for _, cause := range causes[:min(len(causes), maxPowerCauses)] {
		cause = status.OneLine(cause)
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
