package operatorgroup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// asAccount opens clients of a server.
type asAccount struct{ server *recorded.Server }

func (a asAccount) For(_ context.Context, account scoped.Account) (client.Client, error) {
	return a.server.Client(account.Name), nil
}

// cluster is a cluster with an OperatorGroup, whose account has all permissions, and a ClusterServiceVersion.
type cluster struct {
	*recorded.Server
	t   *testing.T
	r   *Reconciler
	og  *operatorsv1.OperatorGroup
	csv *operatorsv1alpha1.ClusterServiceVersion
}

const (
	annotate = "acct: patch OperatorGroup t1/og"
	labelT2  = "acct: patch Namespace t2"
)

// indexes adds the indexes of a program's cache.
func indexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(kit.IndexOwners(ctx, indexer), Index(ctx, indexer))
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, og: given().Group, csv: &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "op.v1"}}}
	c.og.UID, c.og.Spec.TargetNamespaces = "og-uid", []string{"t2"}
	c.csv.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: "things.example.com", Version: "v1", Kind: "Thing"}}
	born := metav1.NewTime(time.Now().Add(-time.Hour))
	c.Server = recorded.New(t, indexes, c.og, c.csv,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1", CreationTimestamp: born}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t2"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "acct", UID: "one"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "all"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"}}})
	all := []string{"*"}
	c.grant(rbacv1.PolicyRule{APIGroups: all, Resources: all, Verbs: all}, rbacv1.PolicyRule{NonResourceURLs: all, Verbs: all})
	c.Put(c.crd(ownerutil.Lineage{Package: "op", Namespace: "t1"}, 0))
	var err error
	c.r, err = New(Options{Client: c.Cached("remit"), Live: c.Client("remit"), Accounts: asAccount{c.Server}, RBAC: c.RBAC(), Proofs: proofs.Keys(), Enrollment: enrolled{}, Recorder: c.Recorder()})
	require.NoError(t, err)
	return c
}

// crd returns the definition of the CSV's API, which a package has installed.
func (c *cluster) crd(by ownerutil.Lineage, age time.Duration) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", CreationTimestamp: metav1.NewTime(time.Now().Add(-age))}}
	proofs.Mark(crd, ownerutil.Owner{Lineage: by, Proofs: proofs.Keys()})
	return crd
}

// aggregated returns the number of APIs whose roles the first of the group's ClusterRoles aggregates.
func (c *cluster) aggregated() int {
	c.t.Helper()
	role, apis := provided.GroupRoles(c.og, nil)[0], provided.Of(c.csv)
	c.Get(role)
	for n := range len(apis) + 1 {
		if equality.Semantic.DeepEqual(role.AggregationRule, provided.GroupRoles(c.og, apis[:n])[0].AggregationRule) {
			return n
		}
	}
	c.t.Fatalf("unexpected aggregation rule: %v", role.AggregationRule)
	return 0
}

func (c *cluster) grant(rules ...rbacv1.PolicyRule) {
	c.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: rules})
}

// settle reconciles until nothing is written, and returns all writes except those of the status.
func (c *cluster) settle() []string {
	c.t.Helper()
	var out []string
	for range 10 {
		_, err := c.r.Reconcile(c.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(given().Group)})
		require.NoError(c.t, err)
		wrote := c.Writes()
		if len(wrote) == 0 {
			return slices.DeleteFunc(out, func(w string) bool { return w == "remit: patch status of OperatorGroup t1/og" })
		}
		out = append(out, wrote...)
	}
	c.t.Fatalf("still writing: %q", out)
	return nil
}

func (c *cluster) condition(kind string) metav1.Condition {
	c.t.Helper()
	c.Get(c.og)
	found := meta.FindStatusCondition(c.og.Status.Conditions, kind)
	require.NotNil(c.t, found)
	return *found
}

func (c *cluster) published() string {
	c.Get(c.og)
	return c.og.Annotations["olm.providedAPIs"]
}

func (c *cluster) roles() []string {
	list := &rbacv1.ClusterRoleList{}
	require.NoError(c.t, c.Cached("remit").List(c.t.Context(), list, client.MatchingLabels{names.LabelOwnerKind: "OperatorGroup"}))
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}

func (c *cluster) labels(namespace string) map[string]string {
	obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	c.Get(obj)
	return obj.Labels
}

func TestPublishesAPIsAndTargetsAsTheAccount(t *testing.T) {
	c := newCluster(t)
	wrote := c.settle()
	require.Len(t, wrote, 5, wrote)
	require.Subset(t, wrote, []string{annotate, labelT2})
	require.Equal(t, "Thing.v1.example.com", c.published())
	require.Len(t, c.roles(), 3)
	require.Contains(t, c.roles()[0], "olm.og.og.admin-")
	require.Equal(t, map[string]string{"olm.operatorgroup.uid/og-uid": ""}, c.labels("t2"))
	require.Equal(t, ReasonPublished, c.condition(ProvidedAPIsPublished).Reason)
	require.Equal(t, ReasonLabeled, c.condition(TargetsLabeled).Reason)

	// The CSV is deleted, and the targets change.
	c.Delete(c.csv)
	c.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t3"}})
	recorded.Edit(c.Server, c.og, func(og *operatorsv1.OperatorGroup) { og.Spec.TargetNamespaces = []string{"t3"} })
	c.settle()
	require.Empty(t, c.published())
	require.Zero(t, c.aggregated())
	require.Empty(t, c.labels("t2"))
	require.Equal(t, map[string]string{"olm.operatorgroup.uid/og-uid": ""}, c.labels("t3"))

	// The group is deleted.
	c.Delete(c.og)
	c.settle()
	require.Empty(t, c.roles())
	require.Empty(t, c.labels("t3"))
}

// The roles of an API are those of the operator that installed it. A CSV can list any API as owned, and the account may well
// have all permissions for it, so without the check the users of the group's ClusterRoles would receive those permissions.
func TestAGroupAggregatesOnlyRolesOfAPIsThatItsPackagesInstalled(t *testing.T) {
	long := strings.Repeat("a-very-long-name-", 5)
	for name, test := range map[string]struct {
		by       ownerutil.Lineage
		age      time.Duration
		unproven bool
		want     int
	}{
		"the package":                       {by: ownerutil.Lineage{Package: "op", Namespace: "t1"}, want: 1},
		"a package with a long name":        {by: ownerutil.Lineage{Package: long, Namespace: "t1"}, want: 1},
		"a package of another namespace":    {by: ownerutil.Lineage{Package: "op", Namespace: "t2"}},
		"a ClusterExtension":                {by: ownerutil.Lineage{Extension: "op", Namespace: "t1"}},
		"a package of an earlier namespace": {by: ownerutil.Lineage{Package: "op", Namespace: "t1"}, age: 2 * time.Hour},
		"labels without a proof":            {by: ownerutil.Lineage{Package: "op", Namespace: "t1"}, unproven: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.Put(&operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "sub"}, Spec: &operatorsv1alpha1.SubscriptionSpec{Package: long}})
			crd := c.crd(test.by, test.age)
			if test.unproven {
				delete(crd.Annotations, names.AnnotationProof)
			}
			c.Delete(crd)
			c.Put(crd)
			c.settle()
			require.Equal(t, test.want, c.aggregated())
			require.Equal(t, "Thing.v1.example.com", c.published(), "the annotation grants nothing")

			t.Log("the owner changes")
			other := ownerutil.Lineage{Package: "other", Namespace: "t2"}
			if test.want == 0 {
				other = ownerutil.Lineage{Package: "op", Namespace: "t1"}
			}
			after := c.crd(other, 0)
			after.UID = "another"
			require.True(t, ownerChanged().Update(event.UpdateEvent{ObjectOld: crd, ObjectNew: after}))
			require.False(t, ownerChanged().Update(event.UpdateEvent{ObjectOld: after, ObjectNew: after}))
			require.Len(t, c.r.defining(t.Context(), c.crd(ownerutil.Lineage{Package: "op", Namespace: "t1"}, 0)), 1)
			c.Delete(crd)
			c.Put(after)
			c.settle()
			require.Equal(t, 1-test.want, c.aggregated())
		})
	}
}

func TestAStaticGroupKeepsItsAnnotation(t *testing.T) {
	c := newCluster(t)
	recorded.Edit(c.Server, c.og, func(og *operatorsv1.OperatorGroup) {
		og.Spec.StaticProvidedAPIs = true
		og.Annotations = map[string]string{annotationAPIs: "Other.v1.example.com"}
	})
	require.NotContains(t, c.settle(), annotate)
	require.Equal(t, "Other.v1.example.com", c.published())
}

func TestRejectedAndCopiedCSVsProvideNothing(t *testing.T) {
	for _, edit := range []func(*operatorsv1alpha1.ClusterServiceVersion){
		func(csv *operatorsv1alpha1.ClusterServiceVersion) {
			csv.Labels = map[string]string{names.LabelCopiedFrom: "x"}
		},
		func(csv *operatorsv1alpha1.ClusterServiceVersion) {
			csv.Status.Reason = operatorsv1alpha1.CSVReasonInterOperatorGroupOwnerConflict
		},
		func(csv *operatorsv1alpha1.ClusterServiceVersion) {
			csv.Status.Reason = operatorsv1alpha1.CSVReasonCannotModifyStaticOperatorGroupProvidedAPIs
		},
	} {
		csv := newCluster(t).csv
		require.True(t, provides(csv))
		edit(csv)
		require.False(t, provides(csv))
	}
}

// No request is sent as an account without permissions, because it would be refused.
func TestReportsWhatTheAccountMayNotPublish(t *testing.T) {
	c := newCluster(t)
	c.grant(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	require.Empty(t, c.settle())
	apis := c.condition(ProvidedAPIsPublished)
	require.Equal(t, names.ReasonAccountLacksPermissions, apis.Reason)
	for _, text := range []string{"t1/acct is missing permissions", "annotation olm.providedAPIs", "ClusterRole olm.og.og.admin-"} {
		require.Contains(t, apis.Message, text)
	}
	targets := c.condition(TargetsLabeled)
	require.Equal(t, names.ReasonAccountLacksPermissions, targets.Reason)
	require.Contains(t, targets.Message, "Namespace t2")

	c.grant(rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorgroups"}, Verbs: []string{"patch"}})
	require.Equal(t, []string{annotate}, c.settle())
	require.Equal(t, "Thing.v1.example.com", c.published())
}

// The ClusterRoles of a group without APIs are empty. They are written only if the account could also add the rules for an API
// later.
func TestWritesNoRolesThatItCouldNotExtend(t *testing.T) {
	c := newCluster(t)
	c.Delete(c.csv)
	c.grant(rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"get", "create", "patch", "delete"}})
	require.Empty(t, c.settle())
}

// Labels and names do not prove that Remit created a ClusterRole for the group.
func TestRolesOfOtherOwnersAreNeitherChangedNorDeleted(t *testing.T) {
	c := newCluster(t)
	forged := provided.GroupRoles(c.og, nil)[0]
	groupOwner := owner{key: client.ObjectKeyFromObject(c.og)}
	forged.Labels = groupOwner.labels()
	c.Put(forged)
	require.NotContains(t, c.settle(), "acct: apply ClusterRole "+forged.Name)
	require.Equal(t, ReasonRefusedByRemit, c.condition(ProvidedAPIsPublished).Reason)

	c.Delete(c.og)
	c.settle()
	require.Equal(t, []string{forged.Name}, c.roles())
}

// The conditions of the OperatorGroup belong to OLM, too.
func TestWritesNothingInANamespaceOfOLM(t *testing.T) {
	c := newCluster(t)
	recorded.Edit(c.Server, given().Group, func(og *operatorsv1.OperatorGroup) {
		og.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	})
	_, err := c.r.Reconcile(c.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(given().Group)})
	require.NoError(t, err)
	require.Empty(t, c.Requests())
	c.Get(c.og)
	require.Empty(t, c.og.Status.Conditions)

	t.Log("the end of the annotation wakes the OperatorGroup")
	after := c.og.DeepCopy()
	after.Annotations = nil
	require.True(t, handedOver().Update(event.UpdateEvent{ObjectOld: c.og, ObjectNew: after}))
	require.True(t, handedOver().Update(event.UpdateEvent{ObjectOld: after, ObjectNew: c.og}))
	require.False(t, handedOver().Update(event.UpdateEvent{ObjectOld: after, ObjectNew: after}))
}

func TestWritesNothingInANamespaceThatTheAPIServerKnowsIsLeftToOLM(t *testing.T) {
	c := newCluster(t)
	c.Lag(c.og)
	recorded.Edit(c.Server, given().Group, func(og *operatorsv1.OperatorGroup) {
		og.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	})
	result, err := c.r.Reconcile(c.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(given().Group)})
	require.NoError(t, err)
	require.NotZero(t, result.RequeueAfter, "the namespace is checked again until the cache shows the annotation")
	require.Empty(t, c.Writes())
}

// A group that selects namespaces by the labels of OperatorGroups adds no labels. Otherwise, a group that selects the namespaces
// without its own label would add and remove that label in an endless loop.
func TestAGroupThatSelectsNamespacesByTheLabelsOfGroupsAddsNone(t *testing.T) {
	for name, selector := range map[string]*metav1.LabelSelector{
		"its own":        {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: labelPrefix + "og-uid", Operator: metav1.LabelSelectorOpDoesNotExist}}},
		"that of others": {MatchLabels: map[string]string{labelPrefix + "another": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.another("another")
			c.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t2", Labels: map[string]string{labelPrefix + "another": ""}}})
			recorded.Edit(c.Server, given().Group, func(og *operatorsv1.OperatorGroup) {
				og.Spec.TargetNamespaces, og.Spec.Selector = nil, selector
			})
			require.NotContains(t, c.settle(), labelT2)
			c.Get(c.og)
			require.Contains(t, c.og.Status.Namespaces, "t2")
		})
	}
}
