package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// reservedDomains are those by whose labels and annotations the cluster's own programs take orders: a ClusterRole's label
// gives its rules to other roles, an annotation has a Secret read or written. "olm." begins such keys without a domain.
func reservedDomains() []string {
	return []string{
		"k8s.io", "kubernetes.io", "openshift.io", "cert-manager.io", "operators.coreos.com", "operatorframework.io", "remit.dev",
	}
}

// onAny, onCSV and onCRD are the keys of those domains that a bundle may set; one that ends in "/" stands for all that
// begin so. Each confers nothing:
//
//	app.kubernetes.io/                    recommended labels, for people and selectors
//	kubernetes.io/description             for people
//	kubectl.kubernetes.io/default-*       which container kubectl shows
//	operatorframework.io/ and its kind    what tools and consoles show of an operator
//	openshift.io/required-scc             only narrows what a Pod's ServiceAccount may use
//	olm.*, on a CSV                       the upgrade graph, which the catalog decides, and what consoles show
//	cert-manager.io/, service.*, on a CSV Remit itself reads and checks them (pkg/install/serving)
//	kubernetes.io/service-account.name    on a Secret: Parse allows it only for a ServiceAccount of the bundle
//	api-approved.kubernetes.io, on a CRD  the API server's word for a group that only the default account may write
func onAny() []string {
	return []string{
		"app.kubernetes.io/", "kubernetes.io/description", "kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container",
		"operatorframework.io/", "operators.operatorframework.io/", "olm.operatorframework.io/", "console.openshift.io/", "operators.openshift.io/",
		"features.operators.openshift.io/", "openshift.io/required-scc",
	}
}

func onCSV() []string {
	return []string{
		"olm.skipRange", "olm.properties", "olm.maxOpenShiftVersion", "olm.substitutesFor",
		"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "service.beta.openshift.io/inject-cabundle",
	}
}

func onCRD() []string { return []string{"api-approved.kubernetes.io"} }

func onSecret() []string { return []string{"kubernetes.io/service-account.name"} }

// Harmless says whether a bundle may set a label or annotation on an object of a kind: any that is of no reserved domain,
// and those of these that are listed. On the Pods of a Deployment kind is "Pod".
func Harmless(kind, key string) bool {
	if !reserved(key) || listed(onAny(), key) {
		return true
	}
	switch kind {
	case operatorsv1alpha1.ClusterServiceVersionKind:
		return listed(onCSV(), key)
	case "CustomResourceDefinition":
		return listed(onCRD(), key)
	case "Secret":
		return listed(onSecret(), key)
	}
	return false
}

func reserved(key string) bool {
	domain, _, prefixed := strings.Cut(strings.ToLower(key), "/")
	if !prefixed {
		// The API server's own are not always prefixed: api-approved.kubernetes.io.
		if strings.HasPrefix(domain, "olm.") {
			return true
		}
	}
	return slices.ContainsFunc(reservedDomains(), func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}

func listed(keys []string, key string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return k == key || strings.HasSuffix(k, "/") && strings.HasPrefix(key, k)
	})
}

// Confine takes from an object the labels and annotations that a bundle may not set, and returns their keys, sorted.
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

// Keep are those labels or annotations of an object of a kind that a bundle may set, and the keys of the others.
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

// maxNamed is how many keys LeftOut names.
const maxNamed = 20

// LeftOut tells people which labels and annotations an object does not get, given the sorted keys of them.
func LeftOut(object string, keys []string) string {
	return fmt.Sprintf("%s: left out these labels and annotations, which other programs of the cluster obey: %s", object, Named(keys))
}

// Named lists words of a bundle, as many as people read, in one line.
func Named(keys []string) string {
	more := ""
	if len(keys) > maxNamed {
		keys, more = keys[:maxNamed], fmt.Sprintf(" and %d more", len(keys)-maxNamed)
	}
	return strings.Join(strings.Fields(strings.Join(keys, ", ")+more), " ") // a key may be any text
}
