package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/remit-olm/remit/pkg/lib/message"
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
func (r Report) ClusterAdmin() message.Text {
	causes := powerCauses{}
	for _, f := range r.Findings {
		if f.Namespace != rbac.ClusterScope || f.Hidden {
			continue
		}
		causes.add(rbac.Powers(f.Missing), f.Cause)
	}
	if len(causes) == 0 {
		return ""
	}
	return message.Sprintf("The requested permissions amount to cluster-admin: %s.", causes.text())
}

// Escalation warns, in one line, that the install grants permissions with which others can be obtained, so that the operator is not
// limited to what the identity was granted. It returns "" if the install grants none. The warning does not depend on whether the
// identity has the permissions.
func (r Report) Escalation() message.Text {
	if len(r.escalations) == 0 {
		return ""
	}
	return message.Sprintf("%s%s has: %s.", escalationPrefix, r.Identity, r.escalations.text())
}

// EventEscalation is the reason of events about permissions with which an operator can obtain others.
const EventEscalation = "GrantsEscalation"

const escalationPrefix message.Text = "Warning: the install grants permissions with which an operator can obtain more permissions than "

// EscalationIn returns the line of a condition's message that Escalation has written, or "". Users who can write the status can
// write such a line, too.
func EscalationIn(message string) string {
	for line := range strings.Lines(message) {
		if strings.HasPrefix(line, string(escalationPrefix)) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// powerCauses contains the causes of each power, as keys.
type powerCauses map[string]map[string]bool

func (p powerCauses) add(powers []string, cause string) {
	for _, power := range powers {
		if p[power] == nil {
			p[power] = map[string]bool{}
		}
		p[power][cause] = true
	}
}

func (p powerCauses) text() string {
	var why []string
	for _, power := range slices.Sorted(maps.Keys(p)) {
		why = append(why, fmt.Sprintf("%s (%s)", power, causesText(slices.Sorted(maps.Keys(p[power])))))
	}
	return strings.Join(why, ", ")
}

func causesText(causes []string) string {
	var out []string
	for _, cause := range causes[:min(len(causes), maxPowerCauses)] {
		cause = message.OneLine(cause)
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
