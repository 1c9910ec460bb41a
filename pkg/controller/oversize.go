package controller

import (
	"reflect"

	"github.com/operator-framework/api/pkg/lib/version"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog/versions"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxConfigured is the memory of a Subscription or CatalogSource, whose lists of tolerations, volumes and variables are not
// limited by the API server.
const maxConfigured = 1 << 20

// maxModes is the number of install modes that are kept of a ClusterServiceVersion that is refused; there are four types.
const maxModes = 20

// partSize is the memory of a part of a parsed version, which may have as many parts as fit into an object.
const partSize = 64

// reduce removes what makes a user's object take much more memory than text, and marks the object as refused
// (docs/adr/0066): three Subscriptions of 1.4 MB would otherwise take 430 MiB. The controllers report such an object in its
// status and install nothing for it. Fields that determine who may do what are never removed; the kinds that have them
// take only a few times the memory of their text.
func reduce(obj client.Object) {
	keepOnce(obj)
	trimStatus(obj)
	remove := removal(obj)
	if remove == nil {
		return
	}
	of := budget.Of(obj)
	size, limit, parts := of.Memory, int64(maxConfigured), int64(0)
	switch o := obj.(type) {
	case *operatorsv1alpha1.ClusterServiceVersion:
		size, limit, parts = of.Decoded(), budget.MaxDecodedBytes, int64(len(o.Spec.Version.Pre)+len(o.Spec.Version.Build))
	case *olmv1.ClusterExtension:
		limit = budget.MaxDecodedBytes
	}
	if size += parts * partSize; size > limit {
		remove()
		budget.Refuse(obj, size)
	}
}

// shortVersion returns a version, or the zero value if the version has many parts: 1.4 MB of text take 22 MB.
func shortVersion(v version.OperatorVersion) version.OperatorVersion {
	if len(v.Pre)+len(v.Build) > versions.MaxVersion {
		return version.OperatorVersion{}
	}
	return v
}

// keepOnce removes repetitions from RBAC objects, and the rules of roles that have more than Remit evaluates (docs/adr/0066). A
// Role of 2.8 MB with 50,000 rules would otherwise take 13 MB in each program.
func keepOnce(obj client.Object) {
	switch o := obj.(type) {
	case *rbacv1.Role:
		o.Rules = rbac.KeptRules(o.Rules)
	case *rbacv1.ClusterRole:
		o.Rules = rbac.KeptRules(o.Rules)
	case *rbacv1.RoleBinding:
		o.Subjects = rbac.KeptSubjects(o.Subjects)
	case *rbacv1.ClusterRoleBinding:
		o.Subjects = rbac.KeptSubjects(o.Subjects)
	}
}

// removal returns a function that removes what can be large in an object, or nil if nothing is removed from its kind.
func removal(obj client.Object) func() {
	switch o := obj.(type) {
	case *operatorsv1alpha1.Subscription:
		return func() {
			if o.Spec != nil {
				o.Spec.Config = nil
			}
		}
	case *operatorsv1alpha1.ClusterServiceVersion:
		return func() {
			o.Spec = operatorsv1alpha1.ClusterServiceVersionSpec{
				Version: shortVersion(o.Spec.Version), Replaces: o.Spec.Replaces, MinKubeVersion: o.Spec.MinKubeVersion,
				InstallModes: atMost(maxModes, o.Spec.InstallModes),
				Cleanup:      o.Spec.Cleanup,
			}
			removeLists(reflect.ValueOf(&o.Status).Elem())
		}
	case *olmv1.ClusterExtension:
		return func() {
			o.Spec.Config = nil
			if from := o.Spec.Source.Catalog; from != nil {
				from.Channels, from.Selector = nil, nil
			}
		}
	case *unstructured.Unstructured:
		if o.GetKind() == operatorsv1alpha1.CatalogSourceKind {
			return func() {
				for _, field := range []string{"grpcPodConfig", "secrets"} {
					unstructured.RemoveNestedField(o.Object, "spec", field)
				}
			}
		}
	}
	return nil
}
