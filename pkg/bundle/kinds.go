package bundle

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind describes a kind of object that bundles can contain.
type Kind struct {
	schema.GroupKind
	// Resource is the plural name that rules use. It is known even if the cluster does not serve the kind yet.
	Resource string
	// Namespaced reports whether the kind is namespaced.
	Namespaced bool
	// Rank orders kinds within a plan, lowest first. ServiceAccounts come before Secrets that reference them, and roles
	// before their bindings.
	Rank int
}

// Ranks of kinds.
const (
	rankCSV = iota
	rankCRD
	rankServiceAccount
	rankConfig
	rankRole
	rankBinding
	rankOther
)

// Kinds lists the kinds that bundles can contain (OLM v0 contract). Other kinds cause an UnsupportedKindError.
func Kinds() []Kind {
	namespaced := func(group, kind, resource string, rank int) Kind {
		return Kind{schema.GroupKind{Group: group, Kind: kind}, resource, true, rank}
	}
	cluster := func(group, kind, resource string, rank int) Kind {
		return Kind{schema.GroupKind{Group: group, Kind: kind}, resource, false, rank}
	}
	return []Kind{
		namespaced("operators.coreos.com", "ClusterServiceVersion", "clusterserviceversions", rankCSV),
		cluster("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", rankCRD),
		namespaced("", "ServiceAccount", "serviceaccounts", rankServiceAccount),
		namespaced("", "Secret", "secrets", rankConfig),
		namespaced("", "ConfigMap", "configmaps", rankConfig),
		namespaced("", "Service", "services", rankConfig),
		namespaced("rbac.authorization.k8s.io", "Role", "roles", rankRole),
		cluster("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", rankRole),
		namespaced("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", rankBinding),
		cluster("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", rankBinding),
		namespaced("policy", "PodDisruptionBudget", "poddisruptionbudgets", rankOther),
		cluster("scheduling.k8s.io", "PriorityClass", "priorityclasses", rankOther),
		namespaced("networking.k8s.io", "NetworkPolicy", "networkpolicies", rankOther),
		namespaced("autoscaling.k8s.io", "VerticalPodAutoscaler", "verticalpodautoscalers", rankOther),
		namespaced("monitoring.coreos.com", "PrometheusRule", "prometheusrules", rankOther),
		namespaced("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", rankOther),
		cluster("console.openshift.io", "ConsoleYAMLSample", "consoleyamlsamples", rankOther),
		cluster("console.openshift.io", "ConsoleQuickStart", "consolequickstarts", rankOther),
		cluster("console.openshift.io", "ConsoleCLIDownload", "consoleclidownloads", rankOther),
		cluster("console.openshift.io", "ConsoleLink", "consolelinks", rankOther),
		cluster("console.openshift.io", "ConsolePlugin", "consoleplugins", rankOther),
	}
}

// KindOfObject returns the supported kind of an object, or the zero Kind.
func KindOfObject(obj *unstructured.Unstructured) Kind {
	kind, _ := KindOf(obj.GroupVersionKind().GroupKind())
	return kind
}

// Sort arranges objects in the order in which a plan applies them. The sort is stable.
func Sort(objs []*unstructured.Unstructured) {
	slices.SortStableFunc(objs, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(KindOfObject(a).Rank, KindOfObject(b).Rank)
	})
}

// IsRBAC reports whether an object is a role or a binding.
func IsRBAC(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().Group == rbacv1.GroupName
}

// KindOf returns the supported kind with this group and kind, or false if there is none.
func KindOf(gk schema.GroupKind) (Kind, bool) {
	for _, k := range Kinds() {
		if k.GroupKind == gk {
			return k, true
		}
	}
	return Kind{}, false
}
