package oracle

import (
	"strings"
)

// changesOutside is I3. In the namespaces of other scenes, which are being removed, and in that of the healthy installs,
// their own accounts may still be at work; nobody else may.
func (o *Oracle) changesOutside(scene *Scene, changes []Change, log *ledger) []string {
	var out []string
	for _, c := range changes {
		namespace := c.Namespace
		if c.Group == "" && c.Resource == "namespaces" {
			namespace = c.Name
		}
		home := o.homeOf(namespace)
		switch {
		case namespace == scene.Namespace, log.byTest(c):
		case home != "" && log.fromHome(c.Key, o.homeOf, home):
		case scene.Allowed != nil && scene.Allowed(c):
		default:
			out = append(out, c.String())
		}
	}
	return out
}

// homeOf is the scene that a namespace is of: its own, or one whose name begins with its name. It is "" for a namespace
// that is of none.
func (o *Oracle) homeOf(namespace string) string {
	for home := range o.scenes {
		if namespace == home || strings.HasPrefix(namespace, home+"-") {
			return home
		}
	}
	return ""
}
