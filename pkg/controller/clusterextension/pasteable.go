package clusterextension

import (
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/preflight"
)

// pasteable describes how to grant what is missing: with a command and, if it fits into limit bytes, with RBAC to paste. The verbs
// that are an alternative are in comments, so that pasting all of it grants no more than what is missing. enrollment is "" if the
// identity is enrolled.
func pasteable(extension string, r preflight.Report, enrollment message.Text, limit int) message.Text {
	command := message.Sprintf("To grant the missing permissions, run \"kubectl remit grant clusterextension/%s\"", extension)
	grant, ok := r.ManifestsWithin(limit - len(command) - len(enrollment))
	if !ok {
		return command
	}
	out := message.Lines(message.Sprintf("%s or apply:", command), enrollment, grant)
	alternative, ok := r.Alternative()
	if !ok {
		return out
	}
	const head message.Text = "Instead of the rules of the roles that the bundle writes or binds, you can grant the verbs escalate and bind on these roles. With escalate, the identity can write any rules into them:"
	if text, ok := alternative.ManifestsWithin((limit - len(out) - len(enrollment) - len(head)) / 2); ok { // comments are longer
		out = out.WithComment(message.Lines(head, enrollment, text))
	}
	return out
}
