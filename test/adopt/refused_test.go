package adopt

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	command "github.com/remit-olm/remit/cmd/kubectl-remit/adopt"
)

// requireVerdict requires that objects of a kind are listed with a verdict and a reason.
func requireVerdict(t *testing.T, report *command.Report, kind, name string, want command.Verdict, why string) {
	t.Helper()
	for _, obj := range report.Namespaces[0].Objects {
		if obj.Kind == kind && obj.Name == name {
			require.Equal(t, want, obj.Verdict, obj.String())
			require.Contains(t, obj.Why, why)
			return
		}
	}
	require.Fail(t, "not listed", "%s %s", kind, name)
}

func TestRefusesObjectsWithoutProof(t *testing.T) {
	r := newRecorded(cluster.Tenant(t))
	c := r.operator("op", "catalog")

	t.Log("labels on other tenants' objects, and bindings with excess permissions, are neither evidence nor a reason to refuse the adoption")
	neighbor := r.Other(nil)
	foreign := &corev1.ServiceAccount{ObjectMeta: r.clusterMeta(c, "neighbor")}
	foreign.Namespace = neighbor
	r.create(foreign, "neighbor")
	more := &rbacv1.Role{ObjectMeta: r.owned(c, "more", false), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}}
	r.create(more, byCatalog)
	r.create(&rbacv1.RoleBinding{ObjectMeta: r.owned(c, "more", false), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "more"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "op", Namespace: r.Namespace}}}, byCatalog)
	crd := r.crd(c, "op")
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	crd.Annotations = map[string]string{"operatorframework.io/installed-alongside-0123456789abcdef": neighbor + "/op.v1.0.0"}
	require.NoError(t, cluster.Client.Update(t.Context(), crd))
	report := adopt(t, 0, "-n", r.Namespace)
	for _, obj := range report.Namespaces[0].Objects {
		require.NotEqual(t, neighbor, obj.Namespace, obj.Verdict)
	}
	requireVerdict(t, report, "RoleBinding", "more", command.Left, "more than the ClusterServiceVersion requires")
	requireVerdict(t, report, "CustomResourceDefinition", crd.Name, command.Left, "no annotation")

	t.Log("a ServiceAccount with a second owner makes the command refuse the whole namespace, even with --yes")
	config := &corev1.ConfigMap{}
	require.NoError(t, r.Get("op-config", config))
	shared := &corev1.ServiceAccount{ObjectMeta: r.owned(c, "shared", true)}
	shared.OwnerReferences = append(shared.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: config.Name, UID: config.UID})
	r.create(shared, byCatalog)
	unowned := &corev1.ServiceAccount{ObjectMeta: r.owned(c, "unowned", false)}
	unowned.OwnerReferences = nil
	r.create(unowned, byCatalog)
	before := state(t, r.made)
	report = adopt(t, 1, "-n", r.Namespace, "--yes")
	requireVerdict(t, report, "ServiceAccount", "unowned", command.Refused, "has no owner reference to it")
	requireVerdict(t, report, "ServiceAccount", "shared", command.Refused, "ConfigMap op-config")
	require.Contains(t, report.Namespaces[0].Refused[0], "ServiceAccount "+r.Namespace+"/shared")
	require.Equal(t, before, state(t, r.made))
	require.NoError(t, cluster.Client.Delete(t.Context(), shared))
	require.NoError(t, cluster.Client.Delete(t.Context(), unowned))

	t.Log("a user who may not read the keys can list objects but adopt nothing")
	tn := r.Tenant
	tn.Grant("", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"list"}})
	report = adopt(t, 1, "-n", r.Namespace, "--yes", "--as", "system:serviceaccount:"+tn.Account.Namespace+":"+tn.Account.Name)
	require.Contains(t, report.Problems[0], "permission to read Remit's keys is required")
}
