package oracle

import (
	"strings"
)

// changesOutside checks I3. In the namespaces of other scenes, which are being deleted, and in that of the healthy installs,
// only their own accounts may still act.
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

// homeOf returns the scene of a namespace: its own, or one whose name is a prefix of the namespace's. It is "" for a namespace
// outside of all scenes.
func (o *Oracle) homeOf(namespace string) string {
	for home := range o.scenes {
		if namespace == home || strings.HasPrefix(namespace, home+"-") {
			return home
		}
	}
	return ""
}
