package escape

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// disturbances returns rows in which the administrator of one target disturbs what Remit writes and binds there. The operator must be
// installed and upgraded in the other targets meanwhile, and get its permissions in this one afterwards.
func disturbances() []row {
	return []row{
		{number: "306b", title: "a Role with more rules than Remit evaluates, bound to the operator's ServiceAccount in one target", holds: p0(), play: func(s *scene) {
			s.disturbed(func(target string) (end func()) {
				s.told.Gifts = append(s.told.Gifts, target)
				crowd := metav1.ObjectMeta{Namespace: target, Name: "crowd"}
				s.Create(&rbacv1.Role{ObjectMeta: crowd, Rules: tooManyRules()})
				s.Create(&rbacv1.RoleBinding{ObjectMeta: crowd, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: crowd.Name},
					Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: forge.ServiceAccount}}})
				return func() {}
			})
		}},
		{number: "395a", title: "the administrator of one target deletes the operator's Roles in a loop", holds: p0(), play: func(s *scene) {
			s.disturbed(func(target string) (end func()) { return s.deletesRoles(target) })
		}},
	}
}

// tooManyRules returns one rule more than Remit evaluates of a role.
func tooManyRules() []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for i := range rbac.MaxRoleRules + 1 {
		one := rule("", "configmaps", "get")
		one.ResourceNames = []string{fmt.Sprint("c", i)}
		out = append(out, one)
	}
	return out
}

// deletesRoles deletes the Roles that Remit creates in a namespace, as its administrator, until end is called.
func (s *scene) deletesRoles(namespace string) (end func()) {
	s.T.Helper()
	admin := s.administrator(namespace)
	ctx, cancel := context.WithCancel(s.T.Context())
	deleted := 0
	var loop sync.WaitGroup
	loop.Go(func() {
		for ctx.Err() == nil {
			roles := &rbacv1.RoleList{}
			_ = admin.List(ctx, roles, client.InNamespace(namespace), client.HasLabels{names.LabelPermissionsHash})
			for i := range roles.Items {
				if admin.Delete(ctx, &roles.Items[i]) == nil {
					deleted++
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() {
		s.T.Helper()
		cancel()
		loop.Wait()
		require.Positive(s.T, deleted, "no Role was deleted")
	}
}

// disturbed installs and upgrades an operator for three targets, one of which its administrator disturbs from the beginning.
func (s *scene) disturbed(disturb func(target string) (end func())) {
	s.T.Helper()
	t1, t2 := s.target("a"), s.target("b")
	s.allow(func(c oracle.Change) bool {
		return c.Namespace == t1 || c.Namespace == t2 || c.Name == t1 || c.Name == t2
	})
	end := disturb(t1)
	second := forge.Of(probe, nextVersion().Set("2.0.0", "spec", "version"))
	second.Version, second.Edges = "2.0.0", map[string]any{"replaces": probeCSV}
	s.group(s.Namespace, t1, t2)
	s.publish(bundleOf(csv()))
	s.subscribe()
	s.Complete()
	s.csvSays(succeeded)
	s.operatorReads(t2, true)

	s.republish(second)
	s.Eventually(func(c *assert.CollectT) {
		later := s.CSV(c, laterCSV)
		assert.Equal(c, succeeded, later.Status.Phase, later.Status.Message)
	})
	s.operatorReads(t2, true)

	end()
	for _, namespace := range []string{s.Namespace, t1, t2} {
		s.operatorReads(namespace, true)
	}
	s.Eventually(func(c *assert.CollectT) {
		later := s.CSV(c, laterCSV)
		assert.Equal(c, succeeded, later.Status.Phase, later.Status.Message)
		assert.NotContains(c, later.Status.Message, "the operator gets no permissions in namespace")
	})
	s.allow(nil)
	leave(s.T, t1)
	leave(s.T, t2)
}
