package lockdown

import (
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// Installs in the namespace of the default account work as in OLM.
func TestTheDefaultAccountInstallsWhereItApplies(t *testing.T) {
	c, err := limited()
	require.NoError(t, err)
	tn := &env.Tenant{T: t, Cluster: c, Namespace: favored, Account: types.NamespacedName{Namespace: "remit", Name: "remit-default"}}
	tn.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: favored}})
	subscribed(tn)
	tn.Group("", favored)

	tn.Succeeded(bundle.CSV)
	tn.GroupSays("group", "AccountUsable", metav1.ConditionTrue, "Enrolled", "remit/remit-default, the installation's default account")
	require.NotEmpty(t, tn.Writes())
	publishes(tn)
}

// publishes requires that the default account publishes the same objects as OLM, and removes them with the OperatorGroup.
func publishes(tn *env.Tenant) {
	tn.T.Helper()
	c := tn.Cluster.Client
	og := &operatorsv1.OperatorGroup{}
	roles := func(t assert.TestingT, labels client.MatchingLabels) int {
		list := &rbacv1.ClusterRoleList{}
		assert.NoError(t, c.List(tn.T.Context(), list, labels))
		return len(list.Items)
	}
	ofGroup := client.MatchingLabels{names.LabelOwnerKind: "OperatorGroup", names.LabelOwnerNamespace: favored}
	tn.Eventually(func(t *assert.CollectT) {
		assert.NoError(t, tn.Get("group", og))
		assert.NotEmpty(t, og.Annotations["olm.providedAPIs"])
		assert.Equal(t, 3, roles(t, ofGroup))
		assert.NotZero(t, roles(t, client.MatchingLabels{names.LabelOwnerNamespace: favored, "rbac.authorization.k8s.io/aggregate-to-view": "true"}))
		ns := &corev1.Namespace{}
		assert.NoError(t, c.Get(tn.T.Context(), client.ObjectKey{Name: favored}, ns))
		assert.Contains(t, ns.Labels, "olm.operatorgroup.uid/"+string(og.UID))
	})
	tn.GroupSays("group", "ProvidedAPIsPublished", metav1.ConditionTrue, "Published", "")
	tn.GroupSays("group", "TargetsLabeled", metav1.ConditionTrue, "Labeled", "")

	tn.T.Log("the OperatorGroup is replaced by one with the same name: only its label remains")
	require.NoError(tn.T, c.Delete(tn.T.Context(), og))
	tn.Group("", favored)
	labels := func(t assert.TestingT) (out []string) {
		ns := &corev1.Namespace{}
		assert.NoError(t, c.Get(tn.T.Context(), client.ObjectKey{Name: favored}, ns))
		for key := range ns.Labels {
			if strings.HasPrefix(key, "olm.operatorgroup.uid/") {
				out = append(out, key)
			}
		}
		return out
	}
	tn.Eventually(func(t *assert.CollectT) {
		og = &operatorsv1.OperatorGroup{}
		assert.NoError(t, tn.Get("group", og))
		assert.Equal(t, []string{"olm.operatorgroup.uid/" + string(og.UID)}, labels(t))
	})

	require.NoError(tn.T, c.Delete(tn.T.Context(), og))
	tn.Eventually(func(t *assert.CollectT) {
		assert.Zero(t, roles(t, ofGroup))
		assert.Empty(t, labels(t))
	})
}

// This covers row 58 of the escape suite, and the bypass of the author check that ADR 0008 describes: where the default
// account does not apply, an empty serviceAccountName means that there is no account, regardless of how it became
// empty.
func TestAnEmptyNameInstallsNothingInOtherNamespaces(t *testing.T) {
	c, err := limited()
	require.NoError(t, err)
	tn := c.Tenant(t)
	tn.Group(env.AccountName, tn.Namespace)
	pod := "system:serviceaccount:" + tn.Namespace + ":operator"
	grantTo(tn, pod, rule("*", "*", "*"))
	operator := c.As(t, pod, rbac.ServiceAccount(tn.Namespace, "").Groups...)

	// This client acts as the installed operator, which has all permissions in the namespace.
	tn.Eventually(func(ct *assert.CollectT) {
		og := &operatorsv1.OperatorGroup{}
		assert.NoError(ct, tn.Get("group", og))
		og.Spec.ServiceAccountName = ""
		assert.NoError(ct, operator.Update(t.Context(), og))
	})
	subscribed(tn)
	nothing := func() {
		tn.SubscriptionSays(operatorsv1alpha1.SubscriptionResolutionFailed, "ErrorPreventedResolution", "no default account is configured for its namespace")
		tn.GroupSays("group", "AccountUsable", metav1.ConditionFalse, string(scoped.NoAccount), "no default account is configured for its namespace")
		tn.NothingWritten()
	}
	nothing()

	og := &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group")}
	require.NoError(t, operator.Delete(t.Context(), og))
	require.NoError(t, operator.Create(t.Context(), &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group")}))
	nothing()
}

// grantTo grants rules to a user in the tenant's namespace.
func grantTo(tn *env.Tenant, user string, rules ...rbacv1.PolicyRule) {
	tn.T.Helper()
	tn.Create(&rbacv1.Role{ObjectMeta: tn.Meta("granted"), Rules: rules})
	tn.Create(&rbacv1.RoleBinding{ObjectMeta: tn.Meta("granted"),
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "granted"}})
}
