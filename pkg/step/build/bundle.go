package build

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// MaxSteps is the maximum number of steps of one bundle (escape suite 74).
const MaxSteps = 1_000

//go:generate go run -modfile=../../../hack/tools/go.mod github.com/golang/mock/mockgen -source=bundle.go -destination=mock_test.go -package=build_test

// RuleChecker determines which rules a ServiceAccount is missing in a namespace ("" for the whole cluster). Programs
// use install.CSVRuleChecker.
type RuleChecker interface {
	MissingRules(sa *corev1.ServiceAccount, namespace string, rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error)
}

// Unchecked is a RuleChecker that reports no missing rules, for callers that determine the missing permissions of all
// steps themselves.
type Unchecked struct{}

// MissingRules returns no rules.
func (Unchecked) MissingRules(*corev1.ServiceAccount, string, []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	return nil, nil
}

// Scope defines the namespace, the account and the targets of an install.
type Scope struct {
	// Namespace is the namespace of the Subscription.
	Namespace string
	// Package is the bundle's package; together with Namespace it identifies the lineage.
	Package string
	// Group is the name of the OperatorGroup; "" if there is none yet.
	Group string
	// Targets are the OperatorGroup's targets, as scoped.Targets returns them.
	Targets []string
	// Replaces names the installed version that the bundle replaces, regardless of the bundle's own spec.replaces; ""
	// if there is none.
	Replaces string
	// Properties are the bundle's properties for the ClusterServiceVersion (catalog.PropertiesText), so that later
	// changes to the catalog do not affect what the installed version provides and requires. "" omits them.
	Properties string
	// Account is the account whose permissions are compared with those of the CSV.
	Account *corev1.ServiceAccount
	// Unbounded is true if the account is the installation's default account.
	Unbounded bool
}

// Excess lists the rules of a CSV that the account does not have in a scope.
type Excess struct {
	Namespace      string
	ServiceAccount string
	Missing        []rbacv1.PolicyRule
}

// Steps contains the steps of one bundle in the order of application.
type Steps struct {
	Steps []step.Step
	// Excess is empty if the account has all of the CSV's permissions.
	Excess []Excess
}

// NewStepResourceFromBundle returns all steps of a bundle. An error means that the bundle itself is invalid;
// permissions that the account is missing are not an error.
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
	all, err := collect(b, owner, append([]*unstructured.Unstructured{csv}, operator...), conversions(b.CSV, owner))
	if err != nil {
		return nil, err
	}
	all.Dropped[csv] = dropped
	out := &Steps{Excess: excess}
	for _, obj := range all.Objects {
		s := step.Step{Object: obj, Owner: owner, Dropped: all.Dropped[obj]}
		if s.IsCSV() {
			s.Warnings = b.Warnings
			s.Install = &step.Install{Targets: scope.Targets, Unbounded: scope.Unbounded}
		}
		out.Steps = append(out.Steps, s)
	}
	return out, nil
}

// Manifests are the objects of an install in the order of application, with the owner's labels.
type Manifests struct {
	Objects []*unstructured.Unstructured
	// Dropped lists, by object, the keys of labels and annotations that the bundle may not set.
	Dropped map[*unstructured.Unstructured][]string
}

// Extension returns objects of a ClusterExtension's bundle: the operator's ServiceAccounts, roles and bindings, and the
// bundle's own manifests with the given conversions. Package install renders the other objects. The bundle's CSV must be
// valid.
func Extension(b *bundle.Bundle, owner ownerutil.Owner, targets []string, conversions []webhook.Conversion) (*Manifests, error) {
	if err := CheckScopes(b.CSV, owner.Namespace, targets); err != nil {
		return nil, err
	}
	operator, err := OperatorRBAC(b.CSV, owner, targets)
	if err != nil {
		return nil, err
	}
	return collect(b, owner, operator, conversions)
}

// collect adds a bundle's manifests to the objects that are rendered from its CSV.
func collect(b *bundle.Bundle, owner ownerutil.Owner, rendered []*unstructured.Unstructured, conversions []webhook.Conversion) (*Manifests, error) {
	out := &Manifests{Objects: rendered, Dropped: map[*unstructured.Unstructured][]string{}}
	for _, obj := range b.Objects {
		own, err := place(obj, owner)
		if err != nil {
			return nil, err
		}
		out.Dropped[own] = bundle.Confine(own)
		out.Objects = withManifest(out.Objects, own)
	}
	if n := len(out.Objects); n > MaxSteps {
		return nil, fmt.Errorf("bundle %q has %d steps; at most %d are allowed", b.CSV.Name, n, MaxSteps)
	}
	if err := convert(out.Objects, conversions); err != nil {
		return nil, err
	}
	bundle.Sort(out.Objects)
	for _, obj := range out.Objects {
		mark(obj, owner)
	}
	return out, nil
}

// NewServiceAccountStepResources returns the operator's own ServiceAccounts with their roles and bindings, and the
// rules of these roles that the account is missing.
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

// RBACForClusterServiceVersion returns the CSV's permissions that the account is missing: its namespaced permissions in
// each target, and its cluster permissions.
func RBACForClusterServiceVersion(csv *operatorsv1alpha1.ClusterServiceVersion, scope Scope, checker RuleChecker) ([]Excess, error) {
	grants := Grants(csv, scope.Namespace, scope.Targets)
	order, missing := make([]int, len(grants)), make([][]rbacv1.PolicyRule, len(grants))
	for i := range order {
		order[i] = i
	}
	// The checker keeps the account's rules in few namespaces, so all grants of one namespace are checked before those of the next.
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(grants[a].Namespace, grants[b].Namespace) })
	for _, i := range order {
		var err error
		if missing[i], err = checker.MissingRules(scope.Account, grants[i].Namespace, grants[i].Rules); errors.Is(err, rbac.ErrUnreadable) {
			missing[i] = nil // the preflight asks the API server instead
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	var excess []Excess
	for i, g := range grants {
		if len(missing[i]) > 0 {
			excess = append(excess, Excess{Namespace: g.Namespace, ServiceAccount: g.ServiceAccount, Missing: missing[i]})
		}
	}
	return excess, nil
}

// place sets the namespace of a manifest to that of the install. A manifest with a different namespace is rejected rather than
// silently moved (escape suite 118). For a ClusterExtension, it is moved, as in OLM v1.
func place(obj *unstructured.Unstructured, owner ownerutil.Owner) (*unstructured.Unstructured, error) {
	own := obj.DeepCopy()
	if !bundle.KindOfObject(obj).Namespaced {
		own.SetNamespace("")
		if _, aggregates := own.Object["aggregationRule"]; aggregates && own.GetKind() == "ClusterRole" {
			delete(own.Object, "rules") // the control plane sets and manages the rules
		}
		return own, nil
	}
	if ns := obj.GetNamespace(); ns != "" && ns != owner.Namespace && owner.Extension == "" {
		return nil, fmt.Errorf("%s %q has namespace %q: objects of a bundle are created in the Subscription's namespace %q",
			obj.GetKind(), obj.GetName(), ns, owner.Namespace)
	}
	own.SetNamespace(owner.Namespace)
	return own, nil
}

// withManifest adds a bundle's object. Some bundles contain the manifest of a ServiceAccount that is also rendered
// from their CSV's permissions; the manifest, with its additional fields, then replaces the rendered one.
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

// mark sets the owner's labels on an object. A CustomResourceDefinition outlives the CSV and may be used by several
// CSVs, so mark names the owner in an annotation instead (OLM v0 contract). A CustomResourceDefinition does not outlive
// a ClusterExtension, so it gets the labels of a ClusterExtension.
func mark(obj *unstructured.Unstructured, owner ownerutil.Owner) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, owner.Labels())
	switch kind := obj.GetKind(); {
	case owner.Extension != "":
	case kind == operatorsv1alpha1.ClusterServiceVersionKind:
		dropOwnerLabels(labels)
	case kind == "CustomResourceDefinition":
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

// AlongsideKey returns the key of the annotation in which a CustomResourceDefinition names a CSV that it was
// installed with.
func AlongsideKey(owner ownerutil.Owner) string {
	return names.AnnotationInstalledAlongsidePrefix + ownerutil.Hash(owner.Namespace, owner.CSV)
}
