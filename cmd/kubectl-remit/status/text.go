package status

import (
	"bytes"
	"io"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	// Text output shows at most maxRules rules of a binding and maxLines lines of a message; -o yaml shows all.
	maxRules = 12
	maxLines = 30
)

// text writes the report as text.
func (r *Report) text(out io.Writer) error {
	var b bytes.Buffer
	for _, g := range r.OperatorGroups {
		separate(&b)
		g.write(&b)
	}
	for _, e := range r.ClusterExtensions {
		separate(&b)
		e.write(&b)
	}
	if len(r.Dangling) > 0 {
		separate(&b)
		writeDangling(&b, r.Dangling)
	}
	if len(r.Leftovers) > 0 {
		separate(&b)
		writeLeftovers(&b, r.Leftovers)
	}
	_, err := out.Write(b.Bytes())
	return err
}

// separate writes an empty line between two sections.
func separate(b *bytes.Buffer) {
	if b.Len() > 0 {
		b.WriteString("\n")
	}
}

func (g *Group) write(b *bytes.Buffer) {
	if g.Name == "" {
		message.Fprintf(b, "Namespace %s has no OperatorGroup\n", g.Namespace)
	} else {
		message.Fprintf(b, "OperatorGroup %s/%s\n", g.Namespace, g.Name)
		g.writeAccount(b)
		message.Fprintf(b, "  Targets: %s\n", targets(g.Targets))
	}
	message.Fprintf(b, "  Installed:%s", none(len(g.Installed)))
	for _, i := range g.Installed {
		i.write(b)
	}
	message.Fprintf(b, "  Blocked:%s", none(len(g.Blocked)))
	for _, x := range g.Blocked {
		message.Fprintf(b, "    %s %s: %s\n", x.Kind, x.Name, joined(x.Condition, x.Reason))
		indent(b, "      ", x.Message)
		indent(b, "      ", x.next(g.Namespace))
	}
	if g.Unneeded != nil {
		g.Unneeded.write(b)
	}
	for _, note := range g.Notes {
		indent(b, "  ", "Note: "+note)
	}
}

func (g *Group) writeAccount(b *bytes.Buffer) {
	a := g.Account
	switch {
	case a.Name != "":
		message.Fprintf(b, "  Account: ServiceAccount %s (exists: %s, enrolled: %s, usable: %s)\n", a.Name, a.Exists, a.Enrolled, a.Usable)
	case a.Default:
		b.WriteString("  Account: the installation's default account (usable: yes)\n")
	default:
		b.WriteString("  Account: none\n")
	}
	if a.Usable != Yes || a.Default {
		indent(b, "    ", a.Message)
	}
}

func targets(namespaces []string) string {
	switch {
	case len(namespaces) == 0:
		return "none"
	case len(namespaces) == 1 && namespaces[0] == "":
		return "all namespaces"
	}
	return strings.Join(namespaces, ", ")
}

func none(n int) message.Text {
	if n == 0 {
		return " nothing\n"
	}
	return "\n"
}

func (i Install) write(b *bytes.Buffer) {
	phase := i.Phase
	if phase == "" {
		phase = "not reconciled yet"
	}
	message.Fprintf(b, "    %s: %s\n", i.Name, phase)
	if i.Message != "" {
		indent(b, "      ", joined(i.Reason, i.Message))
	}
	for _, u := range i.Unmet {
		indent(b, "      ", "- "+u)
	}
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}

func (h *Unneeded) write(b *bytes.Buffer) {
	message.Fprintf(b, "  Permissions that no install needs:%s", none(len(h.Excess)))
	for _, e := range h.Excess {
		where := "cluster-wide"
		if e.Namespace != rbac.ClusterScope {
			where = "in namespace " + e.Namespace
		}
		message.Fprintf(b, "    %s, by %s (%s)\n", where, quoted(e.Binding), quoted(e.Role))
		rules(b, "not needed:", e.Unused)
		rules(b, "only partly needed; narrower rules are sufficient:", e.Wider)
	}
	if len(h.Shared) > 0 {
		shown := make([]string, 0, len(h.Shared))
		for _, s := range h.Shared {
			shown = append(shown, quoted(s.Binding))
		}
		message.Fprintf(b, "  Permissions that the account shares through its groups: %s\n", strings.Join(shown, ", "))
	}
}

func rules(b *bytes.Buffer, head string, list []rbacv1.PolicyRule) {
	if len(list) == 0 {
		return
	}
	message.Fprintf(b, "      %s\n", head)
	for i, r := range list {
		if i == maxRules {
			message.Fprintf(b, "        and %d more: see -o yaml\n", len(list)-maxRules)
			return
		}
		message.Fprintf(b, "        %s\n", rbac.Line(r))
	}
}

// indent writes text that may come from a status, with each line indented.
func indent(b *bytes.Buffer, by, text string) {
	if text == "" {
		return
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if i == maxLines {
			message.Fprintf(b, "%sand %d more lines: see -o yaml\n", by, len(lines)-maxLines)
			return
		}
		message.Fprintf(b, "%s%s\n", by, line)
	}
}
