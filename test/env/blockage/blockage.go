// Package blockage defines the reasons why an install can wait. The end-to-end tests and the benchmarks share them to verify
// that a waiting install sends no requests.
package blockage

import (
	"path/filepath"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// Images of catalogs. A cluster must serve these catalogs before a Blockage is used.
const (
	// Sample is the image of the unmodified sample operator.
	Sample = "catalogs.test/sample"
	// UnknownKind is the image of the sample operator with the additional object UnknownKindManifest.
	UnknownKind = "catalogs.test/unknown-kind"
	// UnknownKindManifest is an object of a kind that bundles may contain but that the cluster does not serve.
	UnknownKindManifest = `{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: sample}, spec: {}}`
)

// WriteCatalogs writes the catalogs of these images into subdirectories of dir and returns the subdirectories, keyed by
// image.
func WriteCatalogs(dir string) (map[string]string, error) {
	out := map[string]string{}
	for image, edit := range map[string]func(v env.Variant){
		Sample:      func(env.Variant) {},
		UnknownKind: func(v env.Variant) { v.Add("vpa.yaml", UnknownKindManifest) },
	} {
		v, err := env.NewVariant()
		if err != nil {
			return nil, err
		}
		edit(v)
		out[image] = filepath.Join(dir, filepath.Base(image))
		if err := v.Write(out[image]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Blockage is one reason why an install can wait.
type Blockage struct {
	Name string
	// Block blocks an install and returns once the status reports the reason. The returned function removes the reason.
	Block func(tn *env.Tenant) (release func())
	// Installs is the name of the ClusterServiceVersion that succeeds after the reason has been removed.
	Installs string
	// Retried is true if no watch can wake the install, which is therefore retried after pauses that double up to five
	// minutes.
	Retried bool
}

// Findings returns the reasons that a preflight finds: missing permissions (according to RBAC or to a dry run), a
// policy, a quota, and a kind that the cluster does not serve.
func Findings() []Blockage {
	return []Blockage{
		{Name: "rbac", Block: byRBAC, Installs: bundle.CSV},
		{Name: "dry-run", Block: byADryRun, Installs: "a.v2.0.0"},
		{Name: "policy", Block: byAPolicy, Installs: bundle.CSV, Retried: true},
		{Name: "quota", Block: byAQuota, Installs: bundle.CSV, Retried: true},
		{Name: "unserved", Block: byAnUnservedKind, Installs: bundle.CSV},
	}
}

// All returns the Findings and all other reasons why an install can wait.
func All() []Blockage {
	return append(Findings(),
		Blockage{Name: "no-account", Block: byAMissingAccount, Installs: bundle.CSV},
		Blockage{Name: "not-enrolled", Block: byEnrollment, Installs: bundle.CSV},
		Blockage{Name: "csv", Block: asACSV, Installs: bundle.CSV},
		Blockage{Name: "collision", Block: byACollision, Installs: bundle.CSV},
		Blockage{Name: "terminating", Block: byATerminatingNamespace, Installs: bundle.CSV, Retried: true},
	)
}

func grant(tn *env.Tenant, targets ...string) {
	tn.T.Helper()
	b, err := env.ReadBundle(bundle.FS())
	require.NoError(tn.T, err)
	tn.GrantAll(tn.Needs(b, bundle.Package, targets...))
}

// asks creates a CatalogSource, an OperatorGroup with these targets, and a Subscription to the sample operator.
func asks(tn *env.Tenant, image string, targets ...string) *operatorsv1.OperatorGroup {
	tn.T.Helper()
	tn.Catalog("catalog", image)
	og := tn.Group(env.AccountName, targets...)
	tn.Subscribe("catalog", bundle.Package, bundle.Channel)
	return og
}

// refusedBy waits until the plan reports refused objects, and asserts that the message contains the text.
func refusedBy(tn *env.Tenant, text string) {
	tn.T.Helper()
	require.Contains(tn.T, tn.ObjectsRefused(), text)
}

// permitted grants the account all permissions that the sample operator needs and subscribes the tenant to the
// operator.
func permitted(tn *env.Tenant) {
	tn.T.Helper()
	grant(tn, tn.Namespace)
	asks(tn, Sample, tn.Namespace)
}

func byRBAC(tn *env.Tenant) func() {
	asks(tn, Sample, tn.Namespace)
	tn.PermissionsMissing()
	return func() { grant(tn, tn.Namespace) }
}

// byADryRun upgrades an operator, which changes the owner of some objects. For this change, some clusters require
// permission to delete the objects, which the account does not have.
func byADryRun(tn *env.Tenant) func() {
	rules := func(verbs ...string) []rbacv1.PolicyRule {
		usual := func(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
			return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: append([]string{"get", "create", "patch"}, verbs...)}
		}
		remove := []string{"delete"}
		return []rbacv1.PolicyRule{
			usual("", verbs, "serviceaccounts"), usual("apps", remove, "deployments"), usual(rbacv1.GroupName, remove, "roles", "rolebindings"),
			usual(operatorsv1alpha1.GroupName, remove, "clusterserviceversions", "installplans"),
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "watch"}},
			{APIGroups: []string{operatorsv1alpha1.GroupName}, Resources: []string{"operatorconditions"}, Verbs: []string{"get", "update", "patch"}},
		}
	}
	full := tn.Grant(tn.Namespace, rules("delete")...)
	tn.Publish("catalog", "a.v1.0.0 stable")
	tn.Group(env.AccountName, tn.Namespace)
	tn.Subscribe("catalog", "a", "stable")
	tn.Succeeded("a.v1.0.0")
	tn.Grant(tn.Namespace, rules()...)
	require.NoError(tn.T, tn.Cluster.Client.Delete(tn.T.Context(), full))
	tn.Publish("catalog", "a.v1.0.0 stable", "a.v2.0.0 stable replaces=a.v1.0.0")
	tn.SubscriptionSays(names.ConditionPermissionsMissing, names.ReasonAccountLacksPermissions, "delete")
	return tn.GrantReleases
}

func byAPolicy(tn *env.Tenant) func() {
	b := tn.Refuse(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "sample-operator-defaults"}})
	permitted(tn)
	refusedBy(tn, "blocked by the test")
	return func() { b.Remove(); touch(tn) }
}

func byAQuota(tn *env.Tenant) func() {
	quota := &corev1.ResourceQuota{ObjectMeta: tn.Meta("none"), Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/services": resource.MustParse("0")}}}
	tn.Create(quota)
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, tn.Get(quota.Name, quota))
		assert.NotEmpty(c, quota.Status.Hard)
	})
	permitted(tn)
	refusedBy(tn, "exceeded quota: none")
	return func() {
		require.NoError(tn.T, tn.Cluster.Client.Delete(tn.T.Context(), quota))
		touch(tn)
	}
}

// byATerminatingNamespace adds a target namespace that is being deleted. No objects can be created in this namespace, so that the
// operator is installed, and reports that it has no permissions there.
func byATerminatingNamespace(tn *env.Tenant) func() {
	other := tn.Other(nil)
	grant(tn, tn.Namespace, other)
	stays := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "stays", Finalizers: []string{"remit.dev/test"}}}
	tn.Create(stays)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}
	require.NoError(tn.T, tn.Cluster.Client.Delete(tn.T.Context(), ns))
	tn.T.Cleanup(func() {
		_ = tn.Cluster.Client.Patch(tn.T.Context(), stays, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	})
	og := asks(tn, Sample, tn.Namespace, other)
	tn.Eventually(func(c *assert.CollectT) { assert.Contains(c, tn.CSV(c, bundle.CSV).Status.Message, other) })
	return func() {
		require.NoError(tn.T, tn.Get(og.Name, og))
		before := og.DeepCopy()
		og.Spec.TargetNamespaces = []string{tn.Namespace}
		require.NoError(tn.T, tn.Cluster.Client.Patch(tn.T.Context(), og, client.MergeFrom(before)))
	}
}

func byACollision(tn *env.Tenant) func() {
	theirs := &corev1.ServiceAccount{ObjectMeta: tn.Meta("sample-operator")}
	tn.Create(theirs)
	permitted(tn)
	refusedBy(tn, "already exists and was not created by this install")
	return func() {
		require.NoError(tn.T, tn.Cluster.Client.Delete(tn.T.Context(), theirs))
		touch(tn)
	}
}

func byAnUnservedKind(tn *env.Tenant) func() {
	grant(tn, tn.Namespace)
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{"autoscaling.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	asks(tn, UnknownKind, tn.Namespace)
	tn.Eventually(func(c *assert.CollectT) { assert.Contains(c, tn.Plan(c).Status.Message, "not found on the cluster") })
	return func() { reinstall(tn) }
}

func byAMissingAccount(tn *env.Tenant) func() {
	sa := &corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)}
	require.NoError(tn.T, tn.Cluster.Client.Delete(tn.T.Context(), sa))
	permitted(tn)
	tn.GroupSays("group", "AccountUsable", metav1.ConditionFalse, "ServiceAccountNotFound", "")
	return func() { tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)}) }
}

func byEnrollment(tn *env.Tenant) func() {
	tn.Withdraw()
	permitted(tn)
	tn.GroupSays("group", "AccountUsable", metav1.ConditionFalse, "AccountNotEnrolled", "")
	return tn.Enroll
}

// asACSV creates a ClusterServiceVersion directly, for an account that is missing the operator's permissions.
func asACSV(tn *env.Tenant) func() {
	v, err := env.NewVariant()
	require.NoError(tn.T, err)
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(tn.T, runtime.DefaultUnstructuredConverter.FromUnstructured(v[env.FileCSV].Object, csv))
	csv.Namespace = tn.Namespace
	tn.Group(env.AccountName, tn.Namespace)
	tn.Create(csv)
	tn.Eventually(func(c *assert.CollectT) {
		assert.Contains(c, tn.CSV(c, bundle.CSV).Status.Message, "is missing permissions")
	})
	return func() { reinstall(tn) }
}

// touch wakes a plan that is blocked for a reason that cannot be watched. Otherwise, the plan would not be retried for
// several minutes.
func touch(tn *env.Tenant) {
	tn.T.Helper()
	og := &operatorsv1.OperatorGroup{}
	require.NoError(tn.T, tn.Get("group", og))
	before := og.DeepCopy()
	og.Annotations = map[string]string{"test": "wake"}
	require.NoError(tn.T, tn.Cluster.Client.Patch(tn.T.Context(), og, client.MergeFrom(before)))
}

// reinstall replaces the blocked install with an install of the sample operator that is not blocked.
func reinstall(tn *env.Tenant) {
	tn.T.Helper()
	for _, kind := range []client.Object{&operatorsv1alpha1.Subscription{}, &operatorsv1alpha1.InstallPlan{}, &operatorsv1alpha1.ClusterServiceVersion{},
		&operatorsv1.OperatorGroup{}, &operatorsv1alpha1.CatalogSource{}} {
		require.NoError(tn.T, tn.Cluster.Client.DeleteAllOf(tn.T.Context(), kind, client.InNamespace(tn.Namespace)))
	}
	tn.Eventually(func(c *assert.CollectT) {
		assert.True(c, apierrors.IsNotFound(tn.Get(bundle.CSV, &operatorsv1alpha1.ClusterServiceVersion{})))
	})
	permitted(tn)
}
