package webhook

import (
	"slices"
)

// Scope says where the objects of a resource live.
type Scope int

// Scopes of a resource.
const (
	// Either is said of a wildcard, and of what nobody knows.
	Either Scope = iota
	Namespaced
	Cluster
)

// Scopes tells the scope of a resource of a group, without its subresource.
type Scopes func(group, resource string) Scope

// clusterScoped are the cluster-scoped resources that Kubernetes itself brings and that a webhook may
// intercept, so that what an install needs can be said without a cluster.
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

// Builtin tells the scope of what Kubernetes itself serves: Either for what it does not know.
func Builtin(group, resource string) Scope {
	if slices.Contains(clusterScoped[group], resource) {
		return Cluster
	}
	return Either
}

// Remembered asks about each resource once: what is decided by an answer and what is written by it are then the
// same, whatever becomes of the resource in between. It is not for many goroutines.
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

// First asks one after another until one knows.
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
