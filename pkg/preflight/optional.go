package preflight

import (
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/condition"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
)

// Feature is something that Remit does for an operator only if the account is allowed to. An operator is installed even if the
// account is not allowed to do it.
type Feature string

// The optional features.
const (
	// FeatureConditions lets the operator update its OperatorCondition (docs/adr/0059).
	FeatureConditions Feature = "conditions"
	// FeatureCopies copies the ClusterServiceVersion into the target namespaces (docs/adr/0053).
	FeatureCopies Feature = "copies"
	// FeatureAnnotation lists the provided APIs in the annotation olm.providedAPIs of the OperatorGroup.
	FeatureAnnotation Feature = "annotation"
	// FeatureLabels adds the label of the OperatorGroup to its target namespaces.
	FeatureLabels Feature = "labels"
	// FeatureRoles writes the ClusterRoles of the provided APIs. It does not write the ClusterRoles of the OperatorGroup, which
	// aggregate these ClusterRoles: the API server requires all permissions for writing a ClusterRole that aggregates others.
	FeatureRoles Feature = "roles"
	// FeatureCertificates watches the Secrets of serving certificates (docs/adr/0076). It is not in Features, because the account
	// can read these Secrets anyway.
	FeatureCertificates Feature = "certificates"
)

// Features returns the optional features in the order in which they are documented.
func Features() []Feature {
	return []Feature{FeatureConditions, FeatureCopies, FeatureAnnotation, FeatureLabels, FeatureRoles}
}

// Optional returns the needs of optional features of a bundle. Callers pass them to Required.
func Optional(b *bundle.Bundle, scope build.Scope, features ...Feature) ([]rbac.Need, error) {
	var out []rbac.Need
	for _, f := range features {
		var needs []rbac.Need
		var err error
		switch f {
		case FeatureConditions:
			needs, err = conditionNeeds(b, scope)
		case FeatureCopies:
			needs = copyNeeds(b.CSV.Name, scope)
		case FeatureAnnotation:
			needs = annotationNeeds(b, scope)
		case FeatureLabels:
			needs = labelNeeds(scope)
		case FeatureRoles:
			needs = roleNeeds(b)
		case FeatureCertificates:
			needs = certificateNeeds(b, scope)
		default:
			err = fmt.Errorf("unknown feature %q", f)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, needs...)
	}
	return out, nil
}

func conditionNeeds(b *bundle.Bundle, scope build.Scope) ([]rbac.Need, error) {
	csv := b.CSV.DeepCopy()
	csv.Namespace = scope.Namespace
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: scope.Package, Namespace: scope.Namespace}, CSV: csv.Name}
	access, err := condition.Access(csv, owner)
	if err != nil {
		return nil, err
	}
	return condition.Needs(csv, access), nil
}

func copyNeeds(csv string, scope build.Scope) (out []rbac.Need) {
	for _, target := range scope.Targets {
		if target == scope.Namespace {
			continue
		}
		out = append(out, optional(target, "copy ClusterServiceVersion "+csv, rbacv1.PolicyRule{
			APIGroups: []string{operatorsv1alpha1.GroupName}, Resources: []string{"clusterserviceversions"}, Verbs: []string{"create"},
		}))
	}
	return out
}

func annotationNeeds(b *bundle.Bundle, scope build.Scope) []rbac.Need {
	if len(provided.Of(b.CSV)) == 0 {
		return nil
	}
	rule := rbacv1.PolicyRule{APIGroups: []string{operatorsv1.GroupVersion.Group}, Resources: []string{"operatorgroups"}, Verbs: []string{"patch"}}
	if scope.Group != "" {
		rule.ResourceNames = []string{scope.Group}
	}
	return []rbac.Need{optional(scope.Namespace, "annotate the OperatorGroup", rule)}
}

func labelNeeds(scope build.Scope) (out []rbac.Need) {
	if slices.Contains(scope.Targets, scoped.AllNamespaces) {
		return nil
	}
	for _, target := range scope.Targets {
		out = append(out, optional(target, "label Namespace "+target, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{target}, Verbs: []string{"patch"},
		}))
	}
	return out
}

func roleNeeds(b *bundle.Bundle) (out []rbac.Need) {
	for _, api := range provided.Of(b.CSV) {
		for _, role := range provided.RolesOf(api) {
			object := "ClusterRole " + role.Name
			out = append(out, optional(rbac.ClusterScope, "apply "+object, rbacv1.PolicyRule{
				APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{role.Name}, Verbs: append(apply.Verbs(), "delete"),
			}))
			granted := optional(rbac.ClusterScope, "write "+object, role.Rules...)
			granted.Granted, granted.Object = true, object
			out = append(out, granted)
		}
	}
	return out
}

func certificateNeeds(b *bundle.Bundle, scope build.Scope) (out []rbac.Need) {
	for _, d := range serving.Served(b.CSV) {
		secret := apply.Reference(corev1.SchemeGroupVersion.WithKind("Secret"), scope.Namespace, cert.SecretName(d.Name))
		out = append(out, hooks.Request(secret, "watch "+apply.Describe(secret), "watch"))
	}
	return out
}

func optional(namespace, cause string, rules ...rbacv1.PolicyRule) rbac.Need {
	return rbac.Need{Namespace: namespace, Cause: cause, Object: cause, Rules: rules}
}
