package installplan

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// intoTargets installs the demo for its own namespace and two other targets.
func intoTargets(w *world) {
	bundled(strings.Replace(demoCSV, "installModes: [", "installModes: [{type: MultiNamespace, supported: true}, ", 1), demoCRD, demoConfigMap)(w)
	og := operatorGroup("og", "acct")
	og.Spec.TargetNamespaces = []string{"ns", "t1", "t2"}
	w.Put(og, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t2"}})
}

// roleIn returns the Role that the demo gets in a target.
func roleIn(t *testing.T, namespace string) *rbacv1.Role {
	t.Helper()
	other := newWorld(t, intoTargets)
	other.reconcile()
	roles, err := other.RBAC().Roles.Roles(namespace).List(labels.Everything())
	require.NoError(t, err)
	require.Len(t, roles, 1)
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: roles[0].Name}}
}

// The names of the operator's roles are predictable, so that a user of a target can create objects with these names.
func TestACollisionInATargetAffectsOnlyThisTarget(t *testing.T) {
	t.Parallel()
	const why = " already exists and was not created by this install"
	stranger := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "mallory"}}
	ref := func(role *rbacv1.Role) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}
	}
	for _, row := range []struct {
		name, namespace string
		theirs          func(role *rbacv1.Role) client.Object
		want            string
		refused         bool
	}{
		{"a Role", "t1", func(role *rbacv1.Role) client.Object { return role }, "Role t1/", false},
		{"a RoleBinding", "t1", func(role *rbacv1.Role) client.Object {
			return &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "theirs"}, Subjects: stranger}
		}, "RoleBinding t1/", false},
		{"a binding of the operator's Role", "t1", func(role *rbacv1.Role) client.Object {
			return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "theirs"}, RoleRef: ref(role), Subjects: stranger}
		}, "a RoleBinding in namespace t1", false},
		{"a Role in the operator's own namespace", "ns", func(role *rbacv1.Role) client.Object { return role }, "Role ns/", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			theirs := row.theirs(roleIn(t, row.namespace))
			w := newWorld(t, intoTargets, with(theirs))
			w.Get(theirs)
			before := theirs.GetResourceVersion()
			got := w.reconcile()
			if row.refused {
				require.Equal(t, "True RefusedByRemit", got.refused, got.message)
				require.Equal(t, []string{writesReport}, got.writes)
				return
			}
			require.Equal(t, "Complete False AcceptedByAPIServer", string(got.phase)+" "+got.refused, got.message)
			var inT1 []string
			for _, write := range got.writes {
				if strings.Contains(write, " t1/") {
					inT1 = append(inT1, write)
				}
			}
			require.Empty(t, inT1)
			require.Subset(t, got.writes, []string{"acct: apply Role t2/demo.v1.0.0-demo-#", "acct: apply RoleBinding t2/demo.v1.0.0-demo-#", lastStep, deploys})
			require.Equal(t, 2, strings.Count(got.steps, "!"), "the Role and the RoleBinding are shown as not created")
			note := w.plan.Status.GetCondition("Installed").Message
			require.Contains(t, note, "the operator gets no permissions in namespace t1: "+row.want)
			require.Contains(t, note, why)
			w.Get(theirs)
			require.Equal(t, before, theirs.GetResourceVersion(), "the object of the other owner is not changed")
		})
	}
}

// A user of a target can fill a quota there, or delete the namespace.
func TestARefusalInATargetAffectsOnlyThisTarget(t *testing.T) {
	t.Parallel()
	forbidden := func(why string) error {
		return apierrors.NewForbidden(rbacv1.Resource("roles"), "demo", errors.New(why))
	}
	const quota = "exceeded quota: objects"
	for _, row := range []struct {
		name, request string
		err           error
		refused       bool
	}{
		{"a quota", "acct: try Role t1/demo.v1.0.0-demo-#", forbidden(quota), false},
		{"a quota that is full after the dry run", "acct: apply Role t1/demo.v1.0.0-demo-#", forbidden(quota), false},
		{"a quota for the binding", "acct: apply RoleBinding t1/demo.v1.0.0-demo-#", forbidden(quota), false},
		{"a Role that was deleted in the meantime", "acct: apply RoleBinding t1/demo.v1.0.0-demo-#", apierrors.NewNotFound(rbacv1.Resource("roles"), "demo"), false},
		{"a Role that was changed in the meantime", "acct: apply Role t1/demo.v1.0.0-demo-#", apierrors.NewConflict(rbacv1.Resource("roles"), "demo", nil), false},
		{"a quota in the operator's own namespace", "acct: try Role ns/demo.v1.0.0-demo-#", forbidden(quota), true},
		{"a permission that was removed", "acct: try Role t1/demo.v1.0.0-demo-#", forbidden(`User "acct" cannot patch resource "roles"`), true},
		{"an escalation", "acct: try Role t1/demo.v1.0.0-demo-#", forbidden(`user "acct" is attempting to grant RBAC permissions not currently held`), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := newWorld(t, intoTargets, refusing(row.request, row.err)).reconcile()
			if row.refused {
				require.Equal(t, "True RefusedByAPIServer", got.refused, got.message)
				require.Equal(t, []string{writesReport}, got.writes)
				return
			}
			require.Equal(t, "Complete", string(got.phase), got.message)
			require.NotContains(t, got.writes, "acct: apply RoleBinding t1/demo.v1.0.0-demo-#")
			require.Subset(t, got.writes, []string{"acct: apply Role t2/demo.v1.0.0-demo-#", "acct: apply RoleBinding t2/demo.v1.0.0-demo-#", lastStep, deploys})
		})
	}
}

func TestARefusalWhosePermissionsAreUndecidedOccupiesNoTarget(t *testing.T) {
	role := &unstructured.Unstructured{}
	role.SetNamespace("t1")
	role.SetLabels(map[string]string{names.LabelPermissionsHash: "h"})
	state := execute.State{Step: step.Step{Object: role}}
	quota := apierrors.NewForbidden(rbacv1.Resource("roles"), "demo", errors.New("exceeded quota"))
	require.Error(t, (&run{}).occupation(state, quota))
	undecided := []preflight.Finding{{Namespace: "t1"}}
	require.NoError(t, (&run{findings: preflight.Report{Unknown: undecided}}).occupation(state, quota))
	require.NoError(t, (&run{findings: preflight.Report{Findings: undecided}}).occupation(state, quota))
}
