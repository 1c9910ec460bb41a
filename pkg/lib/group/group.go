// Package group classifies API groups that tenants must not provide: those of Kubernetes, Remit and OLM, and their subdomains.
// The restriction applies to CustomResourceDefinitions, APIServices and the resources that webhooks intercept.
package group

import "strings"

// Own reports whether a group belongs to Remit or OLM, or is a subdomain of an OLM group. It returns false for subdomains of
// remit.dev.
func Own(name string) bool {
	return normal(name) == "remit.dev" || within(name, []string{"operators.coreos.com", "olm.operatorframework.io"})
}

// Protected reports whether a group belongs to Kubernetes, or is a group for which Own returns true. Groups without a dot, and
// all subdomains of k8s.io and kubernetes.io, belong to Kubernetes.
func Protected(name string) bool {
	return Own(name) || !strings.Contains(name, ".") || within(name, []string{"k8s.io", "kubernetes.io"})
}

// Community reports whether a group is a subdomain of k8s.io. Such groups belong to Kubernetes or to related projects.
// The API server requires an approval annotation on CustomResourceDefinitions in them.
func Community(name string) bool {
	return strings.HasSuffix(normal(name), ".k8s.io")
}

// Same reports whether two names refer to the same group, regardless of case, because the API server compares groups
// in lower case.
func Same(a, b string) bool { return normal(a) == normal(b) }

func within(name string, parents []string) bool {
	name = normal(name)
	for _, parent := range parents {
		if name == parent || strings.HasSuffix(name, "."+parent) {
			return true
		}
	}
	return false
}

func normal(name string) string { return strings.ToLower(strings.Trim(name, ". ")) }
