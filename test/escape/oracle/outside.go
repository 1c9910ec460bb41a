package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// changesOutside returns the violations of I3. In the namespaces of earlier scenes, which are being deleted, and in the
// namespace of the healthy installs, changes by the accounts of these namespaces are allowed. Remit writes the Operators of
// all these namespaces shortly after their operators change; mixed checks what the Operators list.
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
		case home != "" && o.isFromHome(c, home, log):
		case (o.isOperator(c.Key) || o.isRecord(c.Key)) && log.onlyByControllers(c.Key):
		case scene.Allowed != nil && scene.Allowed(c):
		default:
			out = append(out, c.String())
		}
	}
	return out
}

// isFromHome reports whether only users of a scene have changed an object there. The oracle deletes its ClusterExtensions without
// waiting for their objects. In a row with remit-remover, that can remove them sooner than the garbage collector, which at first
// does not know their kind.
func (o *Oracle) isFromHome(c Change, home string, log *ledger) bool {
	if c.Namespace == pulseNamespace && c.How == removed && strings.HasPrefix(c.Name, healthyExtension) {
		return log.fromHome(c.Key, o.homeOrRemover, home)
	}
	return log.fromHome(c.Key, o.homeOfUser, home)
}

// homeOrRemover is like homeOfUser, but remit-remover belongs to the healthy installs.
func (o *Oracle) homeOrRemover(user string) string {
	if user == accountPrefix+o.cluster.Home+":"+names.ServiceAccountRemover {
		return pulseNamespace
	}
	return o.homeOfUser(user)
}

// isOperator reports whether an object is the Operator of a package in one of the scenes' namespaces.
func (o *Oracle) isOperator(key Key) bool {
	return key.GroupResource == operators && o.homeOf(namespaceOf(key.Name)) != ""
}

var operators = schema.GroupResource{Group: operatorsv1.GroupVersion.Group, Resource: "operators"}

// namespaceOf returns the namespace in the name of an Operator.
func namespaceOf(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// mixed returns the Operators that list objects in the namespaces of another scene. An object's labels must not make it a
// component of another tenant's operator.
func (o *Oracle) mixed(s *Snapshot) ([]string, error) {
	list, err := items[operatorsv1.Operator](s, operators)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, op := range list {
		if op.Status.Components == nil {
			continue
		}
		for _, ref := range op.Status.Components.Refs {
			home := o.homeOf(ref.Namespace)
			if home != "" && home != o.homeOf(namespaceOf(op.Name)) {
				out = append(out, fmt.Sprintf("Operator %s lists %s %s/%s", op.Name, ref.Kind, ref.Namespace, ref.Name))
			}
		}
	}
	return out, nil
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

// homeOfUser returns the scene to which a ServiceAccount, or the user of a ClusterExtension, belongs, or "" if there is none.
func (o *Oracle) homeOfUser(user string) string {
	if account, ok := strings.CutPrefix(user, accountPrefix); ok {
		namespace, _, _ := strings.Cut(account, ":")
		return o.homeOf(namespace)
	}
	if name, ok := strings.CutPrefix(user, extensionPrefix); ok {
		return o.extensions[name]
	}
	return ""
}

// isRecord reports whether an object is the report about a ClusterExtension of a scene, or its content, which is also kept for
// the oracle's own ClusterExtensions.
func (o *Oracle) isRecord(key Key) bool {
	if key.Group != "" || key.Resource != "configmaps" || key.Namespace != o.cluster.Home {
		return false
	}
	name, ok := strings.CutPrefix(key.Name, "remit-report-clusterextension-")
	if content, isContent := strings.CutPrefix(key.Name, "remit-content-clusterextension-"); isContent {
		if isHealthyExtension(content) {
			return true
		}
		name, ok = content, true
	}
	return ok && slices.ContainsFunc(slices.Collect(maps.Keys(o.extensions)), func(extension string) bool {
		return name == extension || len(extension) > 200 && strings.HasPrefix(name, extension[:200]+"-")
	})
}
