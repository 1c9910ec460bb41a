package csv

import (
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
)

// onlyMaps allows the account to install operators that read ConfigMaps, but not to delete anything.
func onlyMaps(w *world) {
	w.put(rule("", "configmaps", "get"), rule("", "serviceaccounts", "get", "create", "patch"), rule(rbacv1.GroupName, "roles", "get", "create", "patch"),
		rule(rbacv1.GroupName, "rolebindings", "get", "create", "patch"), rule("apps", "deployments", "get", "create", "patch"),
		rule("operators.coreos.com", "operatorconditions", "get", "create", "patch", "update", "delete"), rule("operators.coreos.com", "operatorconditions/status", "get", "update", "patch"))
}

// nextImage creates a version that replaces the demo, with another image, and that only reads ConfigMaps.
func nextImage(w *world) {
	c := parsed(w.t, strings.ReplaceAll(strings.ReplaceAll(demo, "demo:1", "demo:2"), "pods", "configmaps"), &operatorsv1alpha1.ClusterServiceVersion{})
	c.Name, c.Spec.Replaces = "demo.v2.0.0", "demo.v1.0.0"
	c.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(-kit.SettleTime))
	w.Put(c)
}

// The account may have been exchanged for a weaker one: what the earlier one granted is not for a version that a user of the
// weaker one creates.
func TestANewVersionDoesNotGetWhatAnEarlierAccountGranted(t *testing.T) {
	t.Parallel()
	const refused = `deployment "demo" may not run as ServiceAccount "demo": bindings that were created for this operator as an account that could do more refer to it, ` +
		`and it has permissions that ServiceAccount t1/acct does not have: in namespace t1 {apiGroups: [""], resources: ["pods"], verbs: ["get"]}; ` +
		`grant what they grant to ServiceAccount t1/acct, or delete them`
	nothing := func(*world) {}
	for name, row := range map[string]struct {
		before, after change
		first, then   bool // whether the new version is refused
	}{
		"the account may not grant it":                     {before: nothing, after: nothing, first: true, then: true},
		"the API server allows it":                         {before: func(w *world) { w.Allow("get pods") }, after: nothing},
		"the API server lets the account bind the role":    {before: func(w *world) { w.Allow("bind roles") }, after: nothing},
		"the account may grant it again":                   {before: nothing, after: strong, first: true},
		"the bindings are deleted":                         {before: nothing, after: deletesBindings, first: true},
		"the bindings are deleted, and a user grants more": {before: nothing, after: func(w *world) { deletesBindings(w); w.Put(ofUser(w)) }, first: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.given(onlyMaps, settled, row.before, nextImage, settled, as("demo.v2.0.0"))
			got := w.settle()
			require.Equal(t, row.first, strings.Contains(got.message, refused), got.message)
			require.Equal(t, !row.first, w.runs("images.test/demo:2"))
			w.Requests()
			require.Empty(t, w.settle().writes)
			require.NotContains(t, strings.Join(w.Requests(), "\n"), "review", "nothing is asked again")

			row.after(w)
			got = w.settle()
			require.Equal(t, row.then, got.phase == phaseFailed, got.message)
			require.Equal(t, !row.then, w.runs("images.test/demo:2"))
		})
	}
}

// runs reports whether the demo's Deployment has an image.
func (w *world) runs(image string) bool {
	d := deploymentOf("demo")
	return w.Has(d) && d.Spec.Template.Spec.Containers[0].Image == image
}

func deletesBindings(w *world) {
	for _, b := range w.bindings("t1") {
		if strings.HasPrefix(b.Name, "demo.v1.0.0-demo") {
			w.Delete(&b)
		}
	}
}

// ofUser is a binding with which a user grants the operator more.
func ofUser(w *world) client.Object {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "more", CreationTimestamp: metav1.NewTime(w.clock.Now().Add(time.Hour))},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "all"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "t1", Name: "demo"}}}
}

// An operator that stays as it is keeps running: package excess reports and removes what it has too much.
func TestAnUnchangedOperatorKeepsWhatAnEarlierAccountGranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.given(onlyMaps)
	require.Equal(t, phaseSucceeded, got.phase)
	require.NotContains(t, got.message, "may not run as")
}
