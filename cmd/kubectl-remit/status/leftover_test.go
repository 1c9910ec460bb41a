package status

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// ownedBy returns a binding that Remit has created for an operator.
func ownedBy(name string, owner ownerutil.Owner) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: owner.Labels(), Annotations: map[string]string{names.AnnotationProof: "v1.key-1.0.x"}},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "r"},
	}
}

// hookOf returns a webhook configuration that Remit has created for an operator.
func hookOf(name string, owner ownerutil.Owner) client.Object {
	b := ownedBy(name, owner)
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: b.Labels, Annotations: b.Annotations}}
}

func TestListsPermissionsWhoseOwnerWasDeleted(t *testing.T) {
	t.Parallel()
	csv := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "ns"}, CSV: "demo.v1"}
	ext := ownerutil.Owner{Lineage: ownerutil.Lineage{Extension: "demo"}}
	unproven := ownedBy("by-a-user", csv)
	unproven.Annotations = nil
	w := givenWorld(t, func(w *world) {
		w.hasExtensions, w.requested = true, "ns"
		w.rbac = listers(t, ownedBy("it's-gone", csv), ownedBy("of-extension", ext), unproven)
		w.hooks = []client.Object{hookOf("hook", csv)}
	})
	text, r := shown(t, w)
	require.Equal(t, []Leftover{
		{Kind: "ValidatingWebhookConfiguration", Name: "hook", Owner: "ClusterServiceVersion ns/demo.v1", Remove: "kubectl delete validatingwebhookconfiguration hook"},
		{Kind: "RoleBinding", Namespace: "ns", Name: "it's-gone", Role: "Role r", Owner: "ClusterServiceVersion ns/demo.v1", Remove: `kubectl delete rolebinding 'it'\''s-gone' -n ns`},
		{Kind: "RoleBinding", Namespace: "ns", Name: "of-extension", Role: "Role r", Owner: "ClusterExtension demo", Remove: "kubectl delete rolebinding of-extension -n ns"},
	}, r.Leftovers)
	require.Contains(t, text, "Permissions and webhooks of operators that were deleted without them. Remit removes those that exceed the account:\n"+
		"  ValidatingWebhookConfiguration hook, of ClusterServiceVersion ns/demo.v1: kubectl delete validatingwebhookconfiguration hook\n"+
		`  RoleBinding it's-gone (Role r), of ClusterServiceVersion ns/demo.v1: kubectl delete rolebinding 'it'\''s-gone' -n ns`+"\n")

	for name, edit := range map[string]func(*world){
		"the owners exist": func(w *world) {
			existing := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: objectMeta("demo.v1")}
			w.csvs, w.extensions = append(w.csvs, existing), []olmv1.ClusterExtension{{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}}
		},
		"the owners are unknown": func(w *world) { w.complete, w.hasExtensions = false, false },
		"another namespace":      func(w *world) { w.requested = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := givenWorld(t, func(w *world) {
				w.hasExtensions = true
				w.rbac = listers(t, ownedBy("b", csv), ownedBy("of-extension", ext))
				w.hooks = []client.Object{hookOf("hook", csv)}
			}, edit)
			_, r := shown(t, w)
			require.Empty(t, r.Leftovers)
		})
	}
}

func TestLimitsTheLeftoversOfANamespace(t *testing.T) {
	t.Parallel()
	var all []Leftover
	for i := range maxDangling + 5 {
		all = append(all, Leftover{Kind: "RoleBinding", Namespace: "a", Name: fmt.Sprint("b", i)})
	}
	var b bytes.Buffer
	writeLeftovers(&b, append(all, Leftover{Kind: "RoleBinding", Namespace: "z", Name: "last"}))
	require.Equal(t, maxDangling+1, strings.Count(b.String(), "RoleBinding"))
	require.Contains(t, b.String(), "RoleBinding last")
	require.Contains(t, b.String(), "  and 5 more: see -o yaml\n")
}

// A name that contained spaces looked like the rest of the line, with another command.
func TestNamesOfObjectsAreWords(t *testing.T) {
	const name = "old, of ClusterExtension demo: kubectl delete namespace team-b #"
	for _, line := range []string{
		Leftover{Kind: "RoleBinding", Namespace: "evil", Name: name, Role: "Role " + name, Owner: "ClusterServiceVersion evil/" + name}.String(),
		Dangling{Kind: "RoleBinding", Name: name, Role: "Role " + name}.String(),
	} {
		require.Contains(t, line, `RoleBinding "old, of`)
		require.Contains(t, line, `(Role "old, of`)
		require.Equal(t, strings.Count(line, "kubectl delete namespace"), strings.Count(line, `team-b #"`), "%s", line)
	}
	var b bytes.Buffer
	(&Unneeded{Excess: []Excess{{Binding: "RoleBinding " + name, Role: "Role r", Namespace: "a"}}, Shared: []Shared{{Binding: "RoleBinding " + name}}}).write(&b)
	require.Equal(t, 2, strings.Count(b.String(), `RoleBinding "old, of`), b.String())
}
