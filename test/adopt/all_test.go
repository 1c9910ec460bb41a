package adopt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	command "github.com/remit-olm/remit/cmd/kubectl-remit/adopt"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// newGlobal creates a namespace with an OperatorGroup that selects all namespaces, and one operator. OLM generates
// cluster-wide permissions for such an operator: a ClusterRole and a ClusterRoleBinding.
func newGlobal(t *testing.T, pkg string) *recorded {
	t.Helper()
	tn := cluster.Tenant(t)
	tn.GrantReleases()
	tn.Grant("", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles", "clusterrolebindings"}, Verbs: []string{"get", "create", "patch", "delete"}})
	r := &recorded{Tenant: tn, copies: tn.Other(nil)}
	r.group(r.Namespace)
	r.group(r.copies, r.copies)
	c := r.operator(pkg, "catalog")
	name := c.Name + "-" + pkg + "-4d5e6f"
	role := &rbacv1.ClusterRole{ObjectMeta: r.clusterMeta(c, name), Rules: append(rules(), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}})}
	r.create(role, byCatalog)
	r.create(&rbacv1.ClusterRoleBinding{ObjectMeta: r.clusterMeta(c, name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: pkg, Namespace: r.Namespace}}}, byCatalog)
	return r
}

// ofNamespace returns the part of a report about one namespace.
func ofNamespace(t *testing.T, report *command.Report, namespace string) command.Namespace {
	t.Helper()
	i := slices.IndexFunc(report.Namespaces, func(n command.Namespace) bool { return n.Name == namespace })
	require.GreaterOrEqual(t, i, 0, "namespace %s is not listed", namespace)
	return report.Namespaces[i]
}

func TestTakesOverAllNamespacesAtOnce(t *testing.T) {
	global := newGlobal(t, "global")
	own := cluster.Tenant(t)
	own.GrantReleases()
	single := newRecorded(own)
	single.operator("single", "catalog")
	unproven := newRecorded(cluster.Tenant(t))
	c := unproven.operator("unproven", "catalog")
	unowned := &corev1.ServiceAccount{ObjectMeta: unproven.owned(c, "unowned", false)}
	unowned.OwnerReferences = nil
	unproven.create(unowned, byCatalog)
	for _, r := range []*recorded{global, single} {
		r.ready()
	}
	adoptable := slices.Concat(global.made, single.made)
	before, refused := state(t, adoptable), state(t, unproven.made)
	running := []map[string]string{global.running(), single.running()}

	t.Log("the dry run lists all namespaces and, for the OperatorGroup of all namespaces, the cluster-scoped objects")
	report := adopt(t, 1, "-A")
	require.NotEmpty(t, ofNamespace(t, report, unproven.Namespace).Refused)
	for _, r := range []*recorded{global, single} {
		ns := ofNamespace(t, report, r.Namespace)
		require.Empty(t, ns.Refused)
		requireVerdicts(t, r, ns)
		require.Equal(t, "olm", ofNamespace(t, report, r.copies).ManagedBy)
	}
	require.Equal(t, before, state(t, adoptable))

	t.Log("a namespace that is refused does not affect the others, and nothing restarts")
	scaleRemit(t, 0)
	report = adopt(t, 1, "-A", "--yes")
	require.Equal(t, "olm", ofNamespace(t, report, unproven.Namespace).ManagedBy)
	require.Equal(t, refused, state(t, unproven.made))
	for i, r := range []*recorded{global, single} {
		require.Equal(t, "remit", ofNamespace(t, report, r.Namespace).ManagedBy)
		require.Equal(t, "remit", ofNamespace(t, report, r.copies).ManagedBy)
		require.Equal(t, running[i], r.running())
	}
	requireManaged(t, "", global.Namespace, global.copies, single.Namespace, single.copies)
	requireManaged(t, "olm", unproven.Namespace)

	t.Log("--undo -A returns all namespaces to OLM")
	report = adopt(t, 0, "-A", "--undo", "--yes")
	for _, r := range []*recorded{global, single} {
		for _, obj := range ofNamespace(t, report, r.Namespace).Objects {
			require.Equal(t, command.Restore, obj.Verdict, obj.String())
		}
	}
	require.Equal(t, before, state(t, adoptable))
	requireManaged(t, "olm", global.Namespace, global.copies, single.Namespace, single.copies)

	t.Log("Remit regards the adopted operators as installed, including the one for all namespaces")
	adopt(t, 1, "-A", "--yes")
	scaleRemit(t, 1)
	for i, r := range []*recorded{global, single} {
		r.Publish("catalog", []string{"global", "single"}[i]+".v1.0.0 stable")
		r.requireInstalled()
		require.Equal(t, running[i], r.running())
	}
	adopt(t, 0, "-A", "--undo", "--yes") // return the namespaces of this test, so that they do not affect other tests
}

// Users of a target namespace can create a Role with OLM's labels whose annotations have no space for a proof.
func TestWhatOthersLabelPreventsNoAdoption(t *testing.T) {
	tn := cluster.Tenant(t)
	r := &recorded{Tenant: tn, copies: tn.Other(nil), targets: tn.Namespace}
	r.group(r.copies, r.copies)
	r.group(r.Namespace, r.Namespace, r.copies)
	c := r.operator("op", "catalog")
	const maxAnnotations = 256 << 10
	full := &rbacv1.Role{ObjectMeta: r.clusterMeta(c, "full"), Rules: rules()}
	full.Namespace = r.copies
	full.Annotations = map[string]string{"a": strings.Repeat("x", maxAnnotations-5)}
	r.create(full, "attacker")
	before := state(t, []client.Object{full})
	report := adopt(t, 0, "-n", r.Namespace, "--yes")
	requireVerdict(t, report, "Role", "full", command.Left, "Too long: may not be more than 262144 bytes")
	requireManaged(t, "", r.Namespace)
	require.Equal(t, before, state(t, []client.Object{full}))
	report = adopt(t, 0, "-n", r.Namespace, "--undo", "--yes")
	requireVerdict(t, report, "Role", "full", command.Left, "it was not adopted")
	requireManaged(t, "olm", r.Namespace)
	require.Equal(t, before, state(t, []client.Object{full}))
}

// requireManaged requires the annotation of the OperatorGroups of namespaces.
func requireManaged(t *testing.T, want string, in ...string) {
	t.Helper()
	for _, ns := range in {
		og := &operatorsv1.OperatorGroup{}
		require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "group"}, og))
		require.Equal(t, want, og.Annotations["remit.dev/managed-by"], ns)
	}
}

func TestOnlyOLMItselfPreventsAnAdoption(t *testing.T) {
	r := newRecorded(cluster.Tenant(t))
	r.operator("op", "catalog")
	started := func(namespace, name string) *appsv1.Deployment {
		labels := map[string]string{"app": name}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: "programs", Containers: []corev1.Container{{Name: "c", Image: "images.test/" + name}}}},
		}}
		r.Create(d)
		return d
	}
	t.Log("a tenant's Deployments with the names of OLM's programs do not prevent an adoption, whatever the tenant grants them in the namespace")
	other := r.Other(nil)
	r.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "programs"}})
	everything := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: other, Name: "programs"}}
	r.Create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "all"}, Rules: []rbacv1.PolicyRule{everything}})
	r.Create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "all"}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"}})
	programs := []*appsv1.Deployment{started(other, "olm-operator"), started(other, "catalog-operator")}
	require.Empty(t, adopt(t, 0, "-n", r.Namespace).Problems)

	t.Log("with OLM's permissions, either Deployment prevents an adoption until it has no replicas")
	olm := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "olm-" + other}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}
	r.Create(olm)
	everywhere := &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}
	cluster.AwaitAllowed(t, authorizationv1.SubjectAccessReviewSpec{User: scoped.Username(other, "programs"), ResourceAttributes: everywhere})
	before := state(t, r.made)
	for i, d := range programs {
		r.Eventually(func(c *assert.CollectT) { // the end of a Pod may not have been observed yet
			report := adopt(t, 1, "-n", r.Namespace, "--yes")
			if assert.Len(c, report.Problems, len(programs)-i) {
				assert.Contains(c, report.Problems[0], fmt.Sprintf("OLM is running: Deployment %s/%s has replicas", other, d.Name))
			}
		})
		scaled := d.DeepCopy()
		scaled.Spec.Replicas = ptr.To(int32(0))
		require.NoError(t, cluster.Client.Patch(t.Context(), scaled, client.MergeFrom(d)))
	}
	require.Equal(t, before, state(t, r.made))
	r.Eventually(func(c *assert.CollectT) {
		for _, d := range programs {
			live := &appsv1.Deployment{}
			assert.NoError(c, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(d), live))
			assert.Zero(c, live.Status.Replicas)
		}
	})
	require.Empty(t, adopt(t, 0, "-n", r.Namespace).Problems)

	t.Log("a user who may not create SubjectAccessReviews cannot adopt while such a Deployment has replicas")
	require.NoError(t, cluster.Client.Delete(t.Context(), olm))
	started(r.Other(nil), "olm-operator")
	r.Grant("", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}})
	report := adopt(t, 1, "-n", r.Namespace, "--yes", "--as", "system:serviceaccount:"+r.Account.Namespace+":"+r.Account.Name)
	require.Contains(t, report.Problems[0], "permission to create SubjectAccessReviews is required")
	require.Equal(t, before, state(t, r.made))
}
