package clusterextension

import (
	"fmt"
	"strings"

	"github.com/remit-olm/remit/pkg/preflight"
)

// pasteable describes how to grant what is missing: with a command and, if it fits into limit bytes, with RBAC to paste. The verbs
// that are an alternative are in comments, so that pasting all of it grants no more than what is missing. enrollment is "" if the
// identity is enrolled.
func pasteable(extension string, r preflight.Report, enrollment string, limit int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\nTo grant the missing permissions, run \"kubectl remit grant clusterextension/%s\"", extension)
	grant, ok := r.ManifestsWithin(limit - out.Len() - len(enrollment))
	if !ok {
		return out.String()
	}
	out.WriteString(" or apply:\n" + enrollment + grant)
	alternative, ok := r.Alternative()
	if !ok {
		return out.String()
	}
	const head = "# Instead of the rules of the roles that the bundle writes or binds, you can grant the verbs escalate and bind on these roles. With escalate, the identity can write any rules into them:\n"
	if text, ok := alternative.ManifestsWithin((limit - out.Len() - len(enrollment) - len(head)) / 2); ok { // comments are longer
		out.WriteString(head + comment(enrollment+text))
	}
	return out.String()
}

func comment(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("# " + line)
	}
	return out.String()
}
