package webhook

import (
	"slices"
)

// Scope is where the objects of a resource are.
type Scope int

// Scopes of a resource.
const (
	// Either is the scope of wildcards and unknown resources.
	Either Scope = iota
	Namespaced
	Cluster
)

// Scopes returns the scope of a resource of a group, without its subresource.
type Scopes func(group, resource string) Scope

// clusterScoped are the cluster-scoped resources of Kubernetes itself that a webhook may intercept, so that the
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

// Builtin returns the scope of resources of Kubernetes itself, and Either for others.
func Builtin(group, resource string) Scope {
	if slices.Contains(clusterScoped[group], resource) {
		return Cluster
	}
	return Either
}

// Remembered caches the answer for each resource, so that the permission check and the written object use the same
// scope even if the resource changes in between. It is not safe for concurrent use.
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

// First returns the answer of the first function that knows the resource.
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
