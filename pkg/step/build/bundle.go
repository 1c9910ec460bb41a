package build

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// MaxSteps is the maximum number of steps of one bundle (escape suite 74).
const MaxSteps = 1_000

//go:generate go run -modfile=../../../hack/tools/go.mod github.com/golang/mock/mockgen -source=bundle.go -destination=mock_test.go -package=build_test

// RuleChecker returns the rules that a ServiceAccount is missing in a namespace ("" for the whole cluster). Programs
// use install.CSVRuleChecker.
type RuleChecker interface {
	MissingRules(sa *corev1.ServiceAccount, namespace string, rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error)
}

// Unchecked is a RuleChecker that finds nothing missing, for callers that determine the missing permissions of all steps
// themselves.
type Unchecked struct{}

// MissingRules returns no rules.
func (Unchecked) MissingRules(*corev1.ServiceAccount, string, []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	return nil, nil
}

// Scope defines the namespace, the account and the targets of an installed bundle.
type Scope struct {
	// Namespace is the namespace of the Subscription.
	Namespace string
	// Package is the bundle's package; together with Namespace it is the lineage.
	Package string
	// Group is the name of the OperatorGroup; "" if there is none yet.
	Group string
	// Targets are the OperatorGroup's targets, as scoped.Targets returns them.
	Targets []string
	// Replaces names the installed version that the bundle replaces, regardless of the bundle's own spec.replaces; ""
	// if there is none.
	Replaces string
	// Properties are the bundle's properties for the ClusterServiceVersion (catalog.PropertiesText), so that what the
	// installed version provides and requires does not depend on later changes of the catalog. "" omits them.
	Properties string
	// Account is the account with which the CSV's permissions are compared.
	Account *corev1.ServiceAccount
	// Unbounded is true if the account is the installation's default account.
	Unbounded bool
}

// Excess are rules of a CSV that the account is missing in a scope.
type Excess struct {
	Namespace      string
	ServiceAccount string
	Missing        []rbacv1.PolicyRule
}

// Steps are the steps of one bundle in the order of application.
type Steps struct {
	Steps []step.Step
	// Excess is empty if the account has all of the CSV's permissions.
	Excess []Excess
}

// NewStepResourceFromBundle returns all steps of a bundle. An error is a defect of the bundle itself; missing
// permissions of the account are not an error.
func NewStepResourceFromBundle(b *bundle.Bundle, scope Scope, checker RuleChecker) (*Steps, error) {
	if err := bundle.ValidateCSV(b.CSV); err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %q: %w", b.CSV.Name, err)
	}
	if err := CheckScopes(b.CSV, scope.Namespace, scope.Targets); err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %q: %w", b.CSV.Name, err)
	}
	owner := ownerutil.Owner{
		Lineage: ownerutil.Lineage{Package: scope.Package, Namespace: scope.Namespace},
		CSV:     b.CSV.Name,
	}
	operator, excess, err := NewServiceAccountStepResources(b.CSV, owner, scope, checker)
	if err != nil {
		return nil, err
	}
	csv, dropped, err := csvObject(b, scope)
	if err != nil {
		return nil, err
	}
	objects := append([]*unstructured.Unstructured{csv}, operator...)
	drops := map[*unstructured.Unstructured][]string{csv: dropped}
	for _, obj := range b.Objects {
		own, err := place(obj, scope)
		if err != nil {
			return nil, err
		}
		drops[own] = bundle.Confine(own)
		objects = withManifest(objects, own)
	}
	if len(objects) > MaxSteps {
		return nil, fmt.Errorf("bundle %q has %d steps: at most %d are allowed", b.CSV.Name, len(objects), MaxSteps)
	}
	if err := convert(objects, b.CSV, owner); err != nil {
		return nil, err
	}
	bundle.Sort(objects)
	out := &Steps{Excess: excess}
	for _, obj := range objects {
		mark(obj, owner)
		s := step.Step{Object: obj, Owner: owner, Dropped: drops[obj]}
		if s.IsCSV() {
			s.Warnings = b.Warnings
			s.Install = &step.Install{Targets: scope.Targets, Unbounded: scope.Unbounded}
		}
		out.Steps = append(out.Steps, s)
	}
	return out, nil
}

// NewServiceAccountStepResources returns the operator's own ServiceAccounts with their roles and bindings, and the
// roles' rules that the account is missing.
func NewServiceAccountStepResources(csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner,
	scope Scope, checker RuleChecker,
) ([]*unstructured.Unstructured, []Excess, error) {
	excess, err := RBACForClusterServiceVersion(csv, scope, checker)
	if err != nil {
		return nil, nil, err
	}
	objects, err := OperatorRBAC(csv, owner, scope.Targets)
	return objects, excess, err
}

// RBACForClusterServiceVersion returns the CSV's permissions that the account is missing: namespaced ones in each
// target, cluster permissions in the whole cluster.
func RBACForClusterServiceVersion(csv *operatorsv1alpha1.ClusterServiceVersion, scope Scope, checker RuleChecker) ([]Excess, error) {
	var excess []Excess
	for _, g := range Grants(csv, scope.Namespace, scope.Targets) {
		missing, err := checker.MissingRules(scope.Account, g.Namespace, g.Rules)
		if errors.Is(err, rbac.ErrUnreadable) {
			continue // preflight asks the API server
		}
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			excess = append(excess, Excess{Namespace: g.Namespace, ServiceAccount: g.ServiceAccount, Missing: missing})
		}
	}
	return excess, nil
}

// place sets a manifest's namespace to the install's. A manifest with another namespace is rejected and not silently
// moved (escape suite 118).
func place(obj *unstructured.Unstructured, scope Scope) (*unstructured.Unstructured, error) {
	own := obj.DeepCopy()
	if !bundle.KindOfObject(obj).Namespaced {
		own.SetNamespace("")
		if _, aggregates := own.Object["aggregationRule"]; aggregates && own.GetKind() == "ClusterRole" {
			delete(own.Object, "rules") // the control plane sets and manages them
		}
		return own, nil
	}
	if ns := obj.GetNamespace(); ns != "" && ns != scope.Namespace {
		return nil, fmt.Errorf("%s %q has namespace %q: objects of a bundle are created in the Subscription's namespace %q",
			obj.GetKind(), obj.GetName(), ns, scope.Namespace)
	}
	own.SetNamespace(scope.Namespace)
	return own, nil
}

// withManifest adds a bundle's object. Some bundles contain the manifest of a ServiceAccount that their CSV's
// permissions already create; then the manifest, with its additional fields, replaces the rendered one.
func withManifest(objects []*unstructured.Unstructured, obj *unstructured.Unstructured) []*unstructured.Unstructured {
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == obj.GetKind() && o.GetName() == obj.GetName() && o.GetNamespace() == obj.GetNamespace()
	})
	if i < 0 {
		return append(objects, obj)
	}
	objects[i] = obj
	return objects
}

// mark sets the owner's labels on an object. A CustomResourceDefinition outlives the CSV and may serve several, so
// annotations instead of a label name them (contract 1.5).
func mark(obj *unstructured.Unstructured, owner ownerutil.Owner) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, owner.Labels())
	switch obj.GetKind() {
	case operatorsv1alpha1.ClusterServiceVersionKind:
		dropOwnerLabels(labels)
	case "CustomResourceDefinition":
		dropOwnerLabels(labels)
		apply.Annotate(obj, AlongsideKey(owner), owner.Namespace+"/"+owner.CSV)
	}
	obj.SetLabels(labels)
}

func dropOwnerLabels(labels map[string]string) {
	for _, k := range []string{names.LabelOwner, names.LabelOwnerKind, names.LabelOwnerNamespace} {
		delete(labels, k)
	}
}

// AlongsideKey returns the annotation with which a CustomResourceDefinition names a CSV that it was installed with.
func AlongsideKey(owner ownerutil.Owner) string {
	return names.AnnotationInstalledAlongsidePrefix + ownerutil.Hash(owner.Namespace, owner.CSV)
}
