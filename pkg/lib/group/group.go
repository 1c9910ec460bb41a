// Package group says which API groups are nobody's to bring: those of Kubernetes and of this API, and what is below
// them. It is asked of CustomResourceDefinitions, of APIServices and of what webhooks intercept.
package group

import "strings"

// Own says whether a group is one of this API's, or of OLM's later one, or below one. Below remit.dev there is none.
func Own(name string) bool {
	return normal(name) == "remit.dev" || within(name, []string{"operators.coreos.com", "olm.operatorframework.io"})
}

// Protected says whether a group belongs to Kubernetes or to this API, or is below one that does. Groups
// without a dot are Kubernetes' alone.
func Protected(name string) bool {
	return Own(name) || !strings.Contains(name, ".") || within(name, []string{"k8s.io", "kubernetes.io"})
}

// Community says whether a group is below k8s.io: Kubernetes' own programs have such groups, and so have projects beside
// it, whose CustomResourceDefinitions say by an annotation that the group was agreed on.
func Community(name string) bool {
	return strings.HasSuffix(normal(name), ".k8s.io")
}

// Same says whether two names are of one group: the API server tells groups apart by lower-case names.
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
