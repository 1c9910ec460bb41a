package webhook

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Scope distinguishes namespaced from cluster-scoped resources.
type Scope int

// Scopes of a resource.
const (
	// Either is the scope of wildcards and unknown resources.
	Either Scope = iota
	Namespaced
	Cluster
)

// Scopes is a function that returns the scope of a resource in an API group. resource does not include a subresource.
type Scopes func(group, resource string) Scope

// clusterScoped lists the cluster-scoped resources of Kubernetes itself that a webhook may intercept, so that the
// permissions of an install can be computed without a cluster.
var clusterScoped = map[string][]string{
	"":                             {"namespaces", "nodes", "persistentvolumes", "componentstatuses"},
	"apiextensions.k8s.io":         {"customresourcedefinitions"},
	"apiregistration.k8s.io":       {"apiservices"},
	"certificates.k8s.io":          {"certificatesigningrequests", "clustertrustbundles"},
	"flowcontrol.apiserver.k8s.io": {"flowschemas", "prioritylevelconfigurations"},
	"internal.apiserver.k8s.io":    {"storageversions"},
	"networking.k8s.io":            {"ingressclasses", "ipaddresses", "servicecidrs"},
	"node.k8s.io":                  {"runtimeclasses"},
	"rbac.authorization.k8s.io":    {"clusterroles", "clusterrolebindings"},
	"resource.k8s.io":              {"deviceclasses", "devicetaintrules", "resourceslices"},
	"scheduling.k8s.io":            {"priorityclasses"},
	"storage.k8s.io":               {"csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses"},
	"storagemigration.k8s.io":      {"storageversionmigrations"},
}

// Builtin returns Cluster for the cluster-scoped resources of Kubernetes itself, and Either for all others.
func Builtin(group, resource string) Scope {
	if slices.Contains(clusterScoped[group], resource) {
		return Cluster
	}
	return Either
}

// Defined returns the scopes of the resources that CustomResourceDefinitions define, and Either for all others. It ignores
// objects of other kinds.
func Defined(objs []*unstructured.Unstructured) Scopes {
	known := map[string]Scope{}
	for _, obj := range objs {
		if obj.GetKind() != "CustomResourceDefinition" {
			continue
		}
		group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		resource, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "plural")
		scope, _, _ := unstructured.NestedString(obj.Object, "spec", "scope")
		known[resource+"."+group] = ScopeOf(scope == string(apiextensionsv1.ClusterScoped))
	}
	return func(group, resource string) Scope { return known[resource+"."+group] }
}

// ScopeOf returns Cluster or Namespaced.
func ScopeOf(isCluster bool) Scope {
	if isCluster {
		return Cluster
	}
	return Namespaced
}

// Discovered returns a function that determines scopes from the API server's discovery, through a mapper that caches it. Each
// call for a resource that is not served sends requests; controllers use requirement.Lookups, which do not repeat them.
func Discovered(mapper meta.RESTMapper) Scopes {
	return func(group, resource string) Scope {
		// A mapper treats "" as any group. Builtin has the cluster-scoped resources of the core group.
		if group == corev1.GroupName {
			return Namespaced
		}
		gvk, err := mapper.KindFor(schema.GroupVersionResource{Group: group, Resource: resource})
		if err != nil {
			return Either
		}
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return Either
		}
		return ScopeOf(mapping.Scope.Name() == meta.RESTScopeNameRoot)
	}
}

// Remembered returns a function that caches the results of ask, so that the permission check and the written object use
// the same scope even if the resource changes between them. The function is not safe for concurrent use.
func Remembered(ask Scopes) Scopes {
	type key struct{ group, resource string }
	known := map[key]Scope{}
	return func(group, resource string) Scope {
		k := key{group, resource}
		if _, ok := known[k]; !ok {
			known[k] = ask(group, resource)
		}
		return known[k]
	}
}

// First returns a function that returns the first result other than Either, or Either if all functions return Either.
func First(all ...Scopes) Scopes {
	return func(group, resource string) Scope {
		for _, ask := range all {
			if s := ask(group, resource); s != Either {
				return s
			}
		}
		return Either
	}
}
