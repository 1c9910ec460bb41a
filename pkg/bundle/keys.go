package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// reservedDomains lists the domains of labels and annotations that control programs in the cluster. For example, a
// label on a ClusterRole aggregates its rules into other roles, and an annotation makes a controller read or write a
// Secret. All keys that begin with "olm." are reserved as well: Remit selects by some of them, for example the roles that
// an OperatorGroup aggregates (olm.opgroup.permissions/). build.DropAggregated removes the labels that other ClusterRoles
// of the cluster aggregate by.
func reservedDomains() []string {
	return []string{
		"k8s.io", "kubernetes.io", "openshift.io", "cert-manager.io", "operators.coreos.com", "operatorframework.io", "remit.dev",
	}
}

// onAny and onKind return the keys of reserved domains that a bundle can set; a final "/" matches all keys with that prefix. None
// of these keys grants permissions:
//
//	app.kubernetes.io/                    recommended labels, for display and selectors
//	kubernetes.io/description             for display
//	kubectl.kubernetes.io/default-*       the container that kubectl selects
//	operatorframework.io/ and similar     information about an operator for tools and consoles
//	openshift.io/required-scc             only narrows the choice of the Pod's SCC
//	olm.*, on a CSV                       for the upgrade graph, which only the catalog determines, and for display
//	cert-manager.io/, service.*, on a CSV read and validated by Remit (pkg/install/serving)
//	kubernetes.io/service-account.name    on a Secret: ParseContent allows it only for a ServiceAccount of the bundle
//	api-approved.kubernetes.io, on a CRD  required by the API server for a group below k8s.io (docs/adr/0022)
func onAny() []string {
	return []string{
		"app.kubernetes.io/", "kubernetes.io/description", "kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container",
		"operatorframework.io/", "operators.operatorframework.io/", "olm.operatorframework.io/", "console.openshift.io/", "operators.openshift.io/",
		"features.operators.openshift.io/", "openshift.io/required-scc",
	}
}

func onKind(kind string) []string {
	switch kind {
	case operatorsv1alpha1.ClusterServiceVersionKind:
		return []string{
			"olm.skipRange", "olm.properties", "olm.maxOpenShiftVersion", "olm.substitutesFor",
			"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "service.beta.openshift.io/inject-cabundle",
		}
	case "CustomResourceDefinition":
		return []string{"api-approved.kubernetes.io"}
	case "Secret":
		return []string{"kubernetes.io/service-account.name"}
	}
	return nil
}

// Harmless reports whether a bundle can set the label or annotation with this key on an object of this kind: the key is
// not reserved, or onAny or onKind lists it. For the Pod template of a Deployment, kind is "Pod".
func Harmless(kind, key string) bool {
	return !reserved(key) || listed(onAny(), key) || listed(onKind(kind), key)
}

func reserved(key string) bool {
	domain, _, _ := strings.Cut(strings.ToLower(key), "/")
	if strings.HasPrefix(domain, "olm.") {
		return true
	}
	// Some keys that the API server defines have no prefix, for example api-approved.kubernetes.io.
	return slices.ContainsFunc(reservedDomains(), func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}

// displayPrefixes are the prefixes of labels and annotations that describe an operator or a catalog for users and consoles.
func displayPrefixes() []string {
	return []string{
		"operatorframework.io", "operators.operatorframework.io", "olm.operatorframework.io",
		"console.openshift.io", "operators.openshift.io", "features.operators.openshift.io",
	}
}

// ForDisplay reports whether a label or annotation has no prefix or one of displayPrefixes. Remit copies only these from the object
// of a user to other objects: one with any other prefix may control the node, the network, a service mesh or a GitOps tool, and the
// user may have no permissions on the other object.
func ForDisplay(key string) bool {
	prefix, _, prefixed := strings.Cut(key, "/")
	return !prefixed || slices.Contains(displayPrefixes(), prefix)
}

func listed(keys []string, key string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return k == key || strings.HasSuffix(k, "/") && strings.HasPrefix(key, k)
	})
}

// Confine removes the labels and annotations that a bundle cannot set from an object, and returns their keys, sorted.
func Confine(obj *unstructured.Unstructured) []string {
	labels, dropped := Keep(obj.GetKind(), obj.GetLabels())
	annotations, more := Keep(obj.GetKind(), obj.GetAnnotations())
	if len(dropped) > 0 {
		obj.SetLabels(labels)
	}
	if len(more) > 0 {
		obj.SetAnnotations(annotations)
	}
	dropped = append(dropped, more...)
	slices.Sort(dropped)
	return slices.Compact(dropped)
}

// Keep returns the labels or annotations that a bundle can set on an object of this kind, and the keys of all others.
func Keep(kind string, all map[string]string) (kept map[string]string, dropped []string) {
	kept = maps.Clone(all)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		if Harmless(kind, key) {
			return false
		}
		dropped = append(dropped, key)
		return true
	})
	return kept, dropped
}

// maxNamed bounds the number of keys that a message lists.
const maxNamed = 20

// LeftOut returns a message that lists the keys of labels and annotations that were omitted from an object.
func LeftOut(object string, keys []string) string {
	return fmt.Sprintf("%s: omitted labels and annotations that control other programs in the cluster: %s", object, Named(keys))
}

// Named joins up to maxNamed keys on one line, followed by the number of further keys.
func Named(keys []string) string {
	more := ""
	if len(keys) > maxNamed {
		keys, more = keys[:maxNamed], fmt.Sprintf(" and %d more", len(keys)-maxNamed)
	}
	return strings.Join(strings.Fields(strings.Join(keys, ", ")+more), " ") // keys can contain newlines
}
