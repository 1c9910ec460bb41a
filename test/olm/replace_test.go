package olm

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
)

const newer = "demo.v2.0.0"

// replacing turns a CSV into one that replaces the CSV that newCSV returns and has no cluster permissions.
func replacing(c *csv) {
	c.Name = newer
	c.Spec.Replaces = "demo.v1.0.0"
	c.Spec.InstallStrategy.StrategySpec.ClusterPermissions = nil
}

// missingCRD makes a CSV require a CRD that does not exist.
func missingCRD(c *csv) {
	c.Spec.CustomResourceDefinitions.Required = []operatorsv1alpha1.CRDDescription{{Name: "things." + c.Namespace + ".test", Version: "v1", Kind: "Thing"}}
}

// upgrading returns a tenant with the older version installed, which has permissions in another namespace and
// cluster-wide. mayDelete contains additional permissions for the account.
func upgrading(t *testing.T, mayDelete ...rbacv1.PolicyRule) (tn *env.Tenant, other string) {
	t.Helper()
	tn = cluster.Tenant(t)
	other = tn.Other(nil)
	grant(tn)
	tn.Grant(tn.Namespace, rule("", "serviceaccounts", "delete")) // required to change the owner of objects
	tn.Grant(other, append(writeRBAC(), readConfigMaps())...)
	tn.Grant(rbac.ClusterScope, append(writeRBAC(), rule("", "nodes", "get"))...)
	if len(mayDelete) > 0 {
		tn.Grant(rbac.ClusterScope, mayDelete...)
	}
	tn.Group(env.AccountName, tn.Namespace, other)
	newCSV(tn, withClusterPermission)
	requireSucceeded(tn)
	require.Len(t, ofVersion(tn, "demo.v1.0.0"), 6)
	return tn, other
}

func writeRBAC() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName}, Verbs: []string{"get", "create", "patch"},
		Resources: []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"}}}
}

func deleteRBAC() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Verbs: []string{"delete"},
		Resources: []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"}}
}

func deleteCSVs() rbacv1.PolicyRule {
	return rule("operators.coreos.com", "clusterserviceversions", "delete")
}

// ofVersion returns the names of the roles and bindings that belong to a version.
func ofVersion(tn *env.Tenant, version string) []string {
	tn.T.Helper()
	var out []string
	for _, list := range []client.ObjectList{&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}} {
		require.NoError(tn.T, cluster.Client.List(tn.T.Context(), list,
			client.MatchingLabels{names.LabelOwnerNamespace: tn.Namespace, names.LabelOwner: version}))
		out = append(out, keys(list)...)
	}
	return out
}

func keys(list client.ObjectList) []string {
	var out []string
	add := func(kind string, meta metav1.ObjectMeta) { out = append(out, kind+" "+meta.Namespace+"/"+meta.Name) }
	switch l := list.(type) {
	case *rbacv1.RoleList:
		for _, o := range l.Items {
			add("Role", o.ObjectMeta)
		}
	case *rbacv1.RoleBindingList:
		for _, o := range l.Items {
			add("RoleBinding", o.ObjectMeta)
		}
	case *rbacv1.ClusterRoleList:
		for _, o := range l.Items {
			add("ClusterRole", o.ObjectMeta)
		}
	case *rbacv1.ClusterRoleBindingList:
		for _, o := range l.Items {
			add("ClusterRoleBinding", o.ObjectMeta)
		}
	}
	return out
}

// requireNewer waits until the newer version has succeeded with a message that contains the text.
func requireNewer(tn *env.Tenant, message string) *csv {
	tn.T.Helper()
	got := &csv{}
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, tn.Get(newer, got))
		assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, got.Status.Phase, got.Status.Message)
		assert.Contains(c, got.Status.Message, message)
	})
	return got
}

func TestRemovesTheOlderVersionAndItsPermissionsAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	tn, other := upgrading(t, deleteRBAC(), deleteCSVs())
	before := ofVersion(tn, "demo.v1.0.0")
	newCSV(tn, replacing, missingCRD)

	got := requirePhase(tn, operatorsv1alpha1.CSVPhaseReplacing, operatorsv1alpha1.CSVReasonBeingReplaced)
	require.Equal(t, "being replaced by csv: "+newer, got.Status.Message)
	tn.Eventually(func(c *assert.CollectT) {
		waiting := &csv{}
		assert.NoError(c, tn.Get(newer, waiting))
		assert.Equal(c, operatorsv1alpha1.CSVReasonRequirementsNotMet, waiting.Status.Reason, waiting.Status.Message)
	})
	require.Equal(t, before, ofVersion(tn, "demo.v1.0.0"), "no objects must be removed before the new version succeeds")

	tn.Create(env.CRD("things", tn.Namespace+".test", "Thing"))
	requireNewer(tn, "install strategy completed with no errors")
	requireGone(tn)
	tn.Eventually(func(c *assert.CollectT) { assert.Empty(c, ofVersion(tn, "demo.v1.0.0")) })
	require.Len(t, ofVersion(tn, newer), 4)
	require.Len(t, operatorRoles(tn, other), 1)
	requireEvent(tn, "Replaced")
	tn.Eventually(func(c *assert.CollectT) {
		got := &csv{}
		assert.NoError(c, tn.Get(newer, got))
		assert.Equal(c, "install strategy completed with no errors", got.Status.Message)
	})
}

func TestRemovesWhatADeletedVersionLeftAfterTheUpgrade(t *testing.T) {
	t.Parallel()
	tn, other := upgrading(t, deleteRBAC())
	theirs := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: tn.Namespace + "-theirs", Labels: map[string]string{
		names.LabelOwner: "demo.v1.0.0", names.LabelOwnerNamespace: tn.Namespace, names.LabelLineage: "another", names.LabelPermissionsHash: "x"}}}
	tn.Create(theirs)
	orphan(tn, "demo.v1.0.0")
	tn.Eventually(func(c *assert.CollectT) { assert.Len(c, ofVersion(tn, "demo.v1.0.0"), 7) })

	newCSV(tn, replacing)
	requireNewer(tn, "install strategy completed with no errors")
	tn.Eventually(func(c *assert.CollectT) {
		assert.Equal(c, []string{"ClusterRole /" + theirs.Name}, ofVersion(tn, "demo.v1.0.0"), "objects of another lineage must remain")
	})
	require.Len(t, operatorRoles(tn, other), 1)
}

// orphan deletes a CSV but not the objects that it owns, like kubectl delete --cascade=orphan after the CSV's finalizers have
// been removed.
func orphan(tn *env.Tenant, name string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		got := &csv{}
		assert.NoError(c, tn.Get(name, got))
		got.Finalizers = nil
		assert.NoError(c, cluster.Client.Update(tn.T.Context(), got))
		assert.NoError(c, cluster.Client.Delete(tn.T.Context(), got, client.PropagationPolicy("Orphan"),
			client.Preconditions{UID: &got.UID, ResourceVersion: &got.ResourceVersion}))
	})
	tn.Eventually(func(c *assert.CollectT) { assert.True(c, apierrors.IsNotFound(tn.Get(name, &csv{}))) })
}

func TestNotesTheCommandToRemoveWhatTheAccountMayNot(t *testing.T) {
	t.Parallel()
	tn, other := upgrading(t)
	newCSV(tn, replacing)
	role := operatorRoles(tn, other)[0].Name

	got := requireNewer(tn, "; objects of an earlier version remain (ServiceAccount "+tn.Account.String()+" is missing permissions")
	require.Contains(t, got.Status.Message, "kubectl delete clusterrolebinding demo.v1.0.0-")
	require.Contains(t, got.Status.Message, "kubectl delete role "+role+" -n "+other)
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		assert.Contains(c, got.Status.Message, "has been replaced by a newer ClusterServiceVersion that has successfully installed. ServiceAccount "+
			tn.Account.String()+" is missing permissions: in namespace "+tn.Namespace)
	})
	require.EqualValues(t, "Deleting", got.Status.Phase)
	require.Contains(t, got.Status.Message, "kubectl delete clusterserviceversion demo.v1.0.0 -n "+tn.Namespace)
	require.Len(t, ofVersion(tn, "demo.v1.0.0"), 4, "the account may delete objects in its own namespace")

	tn.Grant(rbac.ClusterScope, deleteRBAC(), deleteCSVs())
	requireGone(tn)
	tn.Eventually(func(c *assert.CollectT) {
		assert.Empty(c, ofVersion(tn, "demo.v1.0.0"))
		got := &csv{}
		assert.NoError(c, tn.Get(newer, got))
		assert.Equal(c, "install strategy completed with no errors", got.Status.Message)
	})
}

func TestKeepsTheNewestOfThreeVersions(t *testing.T) {
	t.Parallel()
	tn, _ := upgrading(t, deleteRBAC(), deleteCSVs())
	newCSV(tn, replacing, missingCRD)
	newCSV(tn, func(c *csv) {
		replacing(c)
		c.Name, c.Spec.Replaces = "demo.v3.0.0", newer
	})
	tn.Eventually(func(c *assert.CollectT) {
		list := &operatorsv1alpha1.ClusterServiceVersionList{}
		assert.NoError(c, cluster.Client.List(t.Context(), list, client.InNamespace(tn.Namespace)))
		if assert.Len(c, list.Items, 1) {
			assert.Equal(c, "demo.v3.0.0", list.Items[0].Name)
			assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, list.Items[0].Status.Phase)
		}
		assert.Empty(c, ofVersion(tn, "demo.v1.0.0"))
		assert.Empty(c, ofVersion(tn, newer))
	})
	require.Len(t, ofVersion(tn, "demo.v3.0.0"), 4)
}
