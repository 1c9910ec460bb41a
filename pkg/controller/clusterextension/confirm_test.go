package clusterextension

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// Everything that a removal depends on is read from the API server, because a cache can be arbitrarily old.
func TestTheAPIServerConfirmsAnExcessOfAnExtension(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		extension func(*olmv1.ClusterExtension)
		binding   func(*rbacv1.ClusterRoleBinding)
		allowed   bool
		want      int
	}{
		"nothing has changed":               {want: 1},
		"the annotation keeps it":           {extension: func(e *olmv1.ClusterExtension) { e.Annotations = map[string]string{names.AnnotationKeepExcess: "true"} }},
		"another extension of that name":    {extension: func(e *olmv1.ClusterExtension) { e.UID = "later" }},
		"another spec, perhaps identity":    {extension: func(e *olmv1.ClusterExtension) { e.Generation++ }},
		"a binding without a proof":         {binding: func(b *rbacv1.ClusterRoleBinding) { b.Annotations = nil }},
		"another binding of that name":      {binding: func(b *rbacv1.ClusterRoleBinding) { b.UID = "later" }},
		"a binding that now grants nothing": {binding: func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Name = "nothing" }},
		"what the API server would allow":   {allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ext := extension("demo")
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "b"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "op"}}}
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}}
			nothing := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nothing"}}
			proofs.Mark(binding, givenUnit(t, interceptor.Funcs{}).owner(ext))
			liveExt, liveBinding := ext.DeepCopy(), binding.DeepCopy()
			if row.extension != nil {
				row.extension(liveExt)
			}
			if row.binding != nil {
				row.binding(liveBinding)
			}
			server := recorded.New(t, nil, role.DeepCopy(), nothing.DeepCopy())
			u := givenUnit(t, interceptor.Funcs{}, liveExt, liveBinding, role, nothing)
			u.RBAC = server.RBAC()
			u.confirmer = &preflight.Confirmer{Ask: func(context.Context, rbac.Subject, string, rbacv1.PolicyRule) (bool, error) { return row.allowed, nil }}
			s := u.begin(ext)
			s.identity = scoped.Identity{Extension: ext.Name}
			cached, err := s.exceeding(s.RBAC.RulesOf).Find([]client.Object{binding})
			require.NoError(t, err)
			require.Len(t, cached, 1)
			got, err := s.confirmExcess(t.Context(), cached)
			require.NoError(t, err)
			require.Len(t, got.Confirmed, row.want)
			require.Equal(t, row.allowed, meta.IsStatusConditionTrue(s.ext.Status.Conditions, olmv1.TypeExceedsIdentity), "the reason why it is kept is reported")
		})
	}
}
