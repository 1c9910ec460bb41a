package status

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/remit-olm/remit/pkg/lib/message"
)

const (
	// Text output shows at most maxDangling unused grants in each namespace, and maxIdentities identities of each; -o yaml
	// shows all.
	maxDangling   = 20
	maxIdentities = 3
)

func (e Extension) write(b *bytes.Buffer) {
	message.Fprintf(b, "ClusterExtension %s (namespace %s)\n", e.Name, e.Namespace)
	message.Fprintf(b, "  Identity: %s (enrolled: %s, authorized: %s)\n", e.Identity, e.Enrolled, e.Authorized.Status)
	if e.Bundle == "" {
		message.Fprintf(b, "  Installed: nothing (package %s)\n", e.Package)
	} else {
		message.Fprintf(b, "  Installed: %s, version %s (available: %s)\n", e.Bundle, e.Version, e.Available.Status)
	}
	message.Fprintf(b, "  Progressing: %s\n", e.Progressing)
	message.Fprintf(b, "  Blocked:%s", none(len(e.Blocked)))
	for _, x := range e.Blocked {
		message.Fprintf(b, "    %s\n", joined(x.Condition, x.Reason))
		indent(b, "      ", x.Message)
	}
	for _, hint := range e.next() {
		indent(b, "    ", hint)
	}
	for _, note := range e.Notes {
		indent(b, "  ", "Note: "+note)
	}
}

// writeDangling writes the unused grants, at most maxDangling for each namespace, so that a user who may write RBAC in one
// namespace cannot hide the grants in another.
func writeDangling(b *bytes.Buffer, all []Dangling) {
	b.WriteString("Permissions that no ClusterExtension uses. A new ClusterExtension with the same identity gets them:\n")
	for start := 0; start < len(all); {
		end := start
		for end < len(all) && all[end].Namespace == all[start].Namespace {
			end++
		}
		where := "cluster-wide"
		if namespace := all[start].Namespace; namespace != "" {
			where = "in namespace " + namespace
		}
		message.Fprintf(b, "  %s\n", where)
		for i, d := range all[start:end] {
			if i == maxDangling {
				message.Fprintf(b, "    and %d more: see -o yaml\n", end-start-maxDangling)
				break
			}
			message.Fprintf(b, "    %s\n", d)
		}
		start = end
	}
	b.WriteString("  To remove enrollments, run kubectl remit unenroll; delete the other objects with kubectl delete\n")
}

func (d Dangling) String() string {
	out := d.Kind + " " + message.Word(d.Name)
	if d.Role != "" {
		out += " (" + quoted(d.Role) + ")"
	}
	out += ": "
	if d.Enrollment {
		out += "enrolls "
	}
	if more := len(d.Identities) - maxIdentities; more > 0 {
		return fmt.Sprintf("%s%s and %d more", out, strings.Join(d.Identities[:maxIdentities], ", "), more)
	}
	return out + strings.Join(d.Identities, ", ")
}
