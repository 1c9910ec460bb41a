package e2e

import (
	"slices"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// targetsAre asserts that the OperatorGroup's status, the CSV and the operator's Pods name these targets.
func targetsAre(t *testing.T, tn *env.Tenant, targets ...string) {
	t.Helper()
	slices.Sort(targets)
	tn.Eventually(func(c *assert.CollectT) {
		og := &operatorsv1.OperatorGroup{}
		assert.NoError(c, tn.Get("group", og))
		assert.Equal(c, targets, og.Status.Namespaces)
		want := map[string]string{
			names.AnnotationOperatorGroup:     "group",
			names.AnnotationOperatorNamespace: tn.Namespace,
			names.AnnotationTargetNamespaces:  strings.Join(targets, ","),
		}
		d := &appsv1.Deployment{}
		assert.NoError(c, tn.Get("sample-operator", d))
		for name, value := range want {
			for _, have := range []map[string]string{tn.CSV(c, bundle.CSV).Annotations, d.Spec.Template.Annotations} {
				got, ok := have[name]
				assert.True(c, ok, name)
				assert.Equal(c, value, got)
			}
		}
	})
}

// grantAnywhere grants the account the permissions that the sample needs for any targets.
func grantAnywhere(tn *env.Tenant) {
	tn.T.Helper()
	grantSample(tn, "")
	tn.Grant(rbac.ClusterScope, rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"get", "create", "patch", "delete"},
	})
}

func TestReportsThePermissionsMissingInOneOfTwoTargets(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogSample)
	other := tn.Other(nil)
	b, err := env.ReadBundle(bundle.FS())
	require.NoError(t, err)
	for _, s := range tn.Needs(b, bundle.Package, tn.Namespace, other).Scopes() {
		if s.Namespace != other {
			tn.Grant(s.Namespace, s.Rules...)
		}
	}
	tn.Group(env.AccountName, tn.Namespace, other)

	message := tn.PermissionsMissing()
	require.Contains(t, message, `in the namespace "`+other+`"`)
	require.NotContains(t, message, `in the namespace "`+tn.Namespace+`"`)
	tn.NothingWritten()

	tn.Paste(message)
	tn.Complete()
	tn.Succeeded(bundle.CSV)
	targetsAre(t, tn, tn.Namespace, other)
	greets(t, tn, other)
}

func TestASelectorFollowsTheNamespacesThatItMatches(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, catalogSample)
	label := map[string]string{"e2e.remit.dev/targets-of": tn.Namespace}
	first := tn.Other(label)
	grantAnywhere(tn)
	tn.Grant(rbac.ClusterScope, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}})
	tn.Create(&operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group"), Spec: operatorsv1.OperatorGroupSpec{
		ServiceAccountName: tn.GroupAccount(), Selector: &metav1.LabelSelector{MatchLabels: label},
	}})

	tn.Complete()
	tn.Succeeded(bundle.CSV)
	targetsAre(t, tn, first)
	second := tn.Other(label)
	targetsAre(t, tn, first, second)
	greets(t, tn, second)

	unlabeled := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"e2e.remit.dev/targets-of":null}}}`))
	require.NoError(t, cluster.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: first}}, unlabeled))
	targetsAre(t, tn, second)
}

func TestAGroupForAllNamespacesNeedsClusterWidePermissions(t *testing.T) {
	bounded(t) // in compat, the group conflicts with those of the other stories, which provide the same API
	t.Parallel()
	tn := subscribed(t, catalogSample)
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName)
	message := tn.PermissionsMissing()
	require.Contains(t, message, "at the cluster scope")
	tn.NothingWritten()
	tn.Paste(message)
	tn.Complete()
	tn.Succeeded(bundle.CSV)
	targetsAre(t, tn, "")
	greets(t, tn, tn.Other(nil))
}

func TestACSVThatDoesNotSupportTheGroupFailsUntilItDoes(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, "own-namespace-only")
	grantAnywhere(tn)
	og := tn.Group(env.AccountName)

	tn.Eventually(func(c *assert.CollectT) {
		csv := tn.CSV(c, bundle.CSV)
		assert.Equal(c, operatorsv1alpha1.CSVPhaseFailed, csv.Status.Phase)
		assert.Equal(c, operatorsv1alpha1.CSVReasonUnsupportedOperatorGroup, csv.Status.Reason)
		assert.Contains(c, csv.Status.Message, "AllNamespaces InstallModeType not supported")
	})
	before := og.DeepCopy()
	og.Spec.TargetNamespaces = []string{tn.Namespace}
	require.NoError(t, cluster.Client.Patch(t.Context(), og, client.MergeFrom(before)))
	tn.Succeeded(bundle.CSV)
	targetsAre(t, tn, tn.Namespace)
}

func TestRecreatesADeletedDeployment(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, catalogSample)
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Succeeded(bundle.CSV)

	d := &appsv1.Deployment{}
	require.NoError(t, tn.Get("sample-operator", d))
	require.NoError(t, cluster.Client.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	tn.Eventually(func(c *assert.CollectT) {
		again := &appsv1.Deployment{}
		assert.NoError(c, tn.Get("sample-operator", again))
		assert.NotEqual(c, d.UID, again.UID)
	})
	tn.Succeeded(bundle.CSV)
}
