package clusterextension_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

// greedyBinding is a manifest that gives the operator permissions in addition to those of its CSV.
const greedyBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: greedy-NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: op, namespace: NAME}]
`

// givenExcess returns a world whose own program has installed a version as a cluster-admin.
func givenExcess(t *testing.T, grace time.Duration) *world {
	t.Helper()
	w := given(t)
	own := w.private(w.name)
	own.grace = grace
	w.program = own
	t.Cleanup(own.run(t))
	w.grantAll()
	w.publish("1.0.0", "", csv, crd, configMap, greedyBinding)
	w.install(func(ext *olmv1.ClusterExtension) { ext.Labels = map[string]string{labelProgram: w.name} })
	w.awaitInstalled("1.0.0")
	return w
}

// weaken leaves the identity only the given permissions.
func (w *world) weaken(rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	name := "weak-" + w.name
	w.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	_, binding := rbac.RoleAndBinding(metav1.ObjectMeta{Name: name}, nil, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "olm:clusterextension:" + w.name})
	w.create(binding.(client.Object))
	require.NoError(w.t, w.admin.Delete(w.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admin-" + w.name}}))
}

func mayDelete() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"}, Verbs: []string{"delete"}}
}

// bound returns whether the operator's binding from the bundle exists.
func (w *world) bound() bool {
	w.t.Helper()
	err := w.admin.Get(w.t.Context(), client.ObjectKey{Name: "greedy-" + w.name}, &rbacv1.ClusterRoleBinding{})
	require.NoError(w.t, client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

func TestAnExcessIsRemovedAndRestored(t *testing.T) {
	t.Parallel()
	w := givenExcess(t, time.Second)
	w.weaken(mayDelete())
	message := w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonRemoved)
	require.Contains(t, message, "User olm:clusterextension:"+w.name+" is missing permissions: ")
	require.Contains(t, message, "Remit has removed them, and restores them when the identity has the permissions again")
	require.False(t, w.bound())
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.name, Name: "op"}, &appsv1.Deployment{}), "the operator's Pods continue to run")

	w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admin-" + w.name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "olm:clusterextension:" + w.name}}})
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.True(c, w.bound())
		assert.Nil(c, meta.FindStatusCondition(w.get().Status.Conditions, olmv1.TypeExceedsIdentity))
	}, patience, tick)
}

func TestAnExcessIsReportedAtOnceAndKeptOnRequest(t *testing.T) {
	t.Parallel()
	w := givenExcess(t, time.Hour)
	w.weaken(mayDelete())
	message := w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonGracePeriod)
	require.Contains(t, message, "ClusterRoleBinding greedy-"+w.name)
	require.Contains(t, message, ", Remit removes them. To keep them, grant the permissions to the User, or set the annotation "+names.AnnotationKeepExcess+"=true")
	w.edit(func(ext *olmv1.ClusterExtension) {
		ext.Annotations = map[string]string{names.AnnotationKeepExcess: "true"}
	})
	w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonKept)
	require.True(t, w.bound())
}

func TestAnExcessThatTheIdentityMayNotDelete(t *testing.T) {
	t.Parallel()
	w := givenExcess(t, time.Second)
	w.weaken()
	message := w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonNotRemoved)
	require.Contains(t, message, "to remove them, run: kubectl delete clusterrolebinding ")
	require.Contains(t, message, "kubectl delete clusterrolebinding greedy-"+w.name)
	require.True(t, w.bound())
}

// orphan deletes the extension without what it installed, as kubectl delete --cascade=orphan does.
func (w *world) orphan() {
	w.t.Helper()
	require.NoError(w.t, w.admin.Delete(w.t.Context(), w.get(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	w.awaitDeleted()
}

func TestAnExcessOfADeletedExtensionIsRemoved(t *testing.T) {
	t.Parallel()
	w := givenExcess(t, time.Second)
	w.orphan()
	require.True(t, w.bound(), "its identity still has the permissions")
	w.weaken(mayDelete())
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.False(c, w.bound()) }, patience, tick)
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.name, Name: "op"}, &appsv1.Deployment{}), "the operator's Pods continue to run")
}

func TestAnExcessOfAnExtensionWhoseDeletionIsDelayedIsRemoved(t *testing.T) {
	t.Parallel()
	w := givenExcess(t, time.Second)
	w.edit(func(ext *olmv1.ClusterExtension) { ext.Finalizers = append(ext.Finalizers, "example.com/delay") })
	require.NoError(t, w.admin.Delete(t.Context(), w.get()))
	w.weaken(mayDelete())
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.False(c, w.bound()) }, patience, tick)
	w.edit(func(ext *olmv1.ClusterExtension) { ext.Finalizers = nil })
}
