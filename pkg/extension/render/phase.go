package render

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Phase is a group of objects that are applied together, after the objects of all earlier phases are ready.
type Phase string

// Phases, in the order of application.
const (
	Namespaces     Phase = "namespaces"
	Policies       Phase = "policies"
	Identity       Phase = "identity"
	Configuration  Phase = "configuration"
	Storage        Phase = "storage"
	CRDs           Phase = "crds"
	Roles          Phase = "roles"
	Bindings       Phase = "bindings"
	Infrastructure Phase = "infrastructure"
	Workloads      Phase = "workloads"
	Publish        Phase = "publish"
	Admission      Phase = "admission"
)

// Order returns all phases in the order of application.
func Order() []Phase {
	return []Phase{
		Namespaces, Policies, Identity, Configuration, Storage, CRDs, Roles, Bindings, Infrastructure, Workloads, Publish, Admission,
	}
}

// phases assigns kinds to phases. All other kinds belong to the phase Publish, because the operator does not need them to
// start.
func phases() map[schema.GroupKind]Phase {
	return map[schema.GroupKind]Phase{
		{Kind: "Namespace"}: Namespaces,
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                             Policies,
		{Group: "policy", Kind: "PodDisruptionBudget"}:                                  Policies,
		{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                             Policies,
		{Kind: "ServiceAccount"}:                                                        Identity,
		{Kind: "Secret"}:                                                                Configuration,
		{Kind: "ConfigMap"}:                                                             Configuration,
		{Kind: "PersistentVolumeClaim"}:                                                 Storage,
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:               CRDs,
		{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                              Roles,
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                       Roles,
		{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:                       Bindings,
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                Bindings,
		{Kind: "Service"}:                                                               Infrastructure,
		{Group: "cert-manager.io", Kind: "Issuer"}:                                      Infrastructure,
		{Group: "cert-manager.io", Kind: "Certificate"}:                                 Infrastructure,
		{Group: "apps", Kind: "Deployment"}:                                             Workloads,
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: Admission,
		{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:   Admission,
	}
}

// PhaseOf returns the phase of an object.
func PhaseOf(obj *unstructured.Unstructured) Phase {
	return cmp.Or(phases()[obj.GroupVersionKind().GroupKind()], Publish)
}

// sortObjects sorts objects by phase, kind, namespace and name.
func sortObjects(all []Object) {
	rank := map[Phase]int{}
	for i, p := range Order() {
		rank[p] = i
	}
	slices.SortStableFunc(all, func(a, b Object) int {
		return cmp.Or(
			cmp.Compare(rank[a.Phase], rank[b.Phase]),
			cmp.Compare(a.GroupVersionKind().GroupKind().String(), b.GroupVersionKind().GroupKind().String()),
			cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()),
		)
	})
}
