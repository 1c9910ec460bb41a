package oracle

import (
	"strings"
)

// changesOutside returns the violations of I3. In the namespaces of earlier scenes, which are being deleted, and in the
// namespace of the healthy installs, changes by the accounts of these namespaces are allowed.
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

// homeOf returns the scene to which a namespace belongs, or "" if there is none. The namespaces of a scene are the one
// with the scene's name and those with that name and a hyphen as a prefix.
func (o *Oracle) homeOf(namespace string) string {
	for home := range o.scenes {
		if namespace == home || strings.HasPrefix(namespace, home+"-") {
			return home
		}
	}
	return ""
}
