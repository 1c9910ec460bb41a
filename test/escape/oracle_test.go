package escape

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// An oracle that sees nothing passes every row: each of its invariants is broken once, on purpose.
func TestTheOracleSees(t *testing.T) {
	for _, c := range []struct {
		invariant, breach string
		words             []string
		do                func(s *scene)
	}{
		{"I1", "a ServiceAccount that holds more than the account", []string{"I1", "ServiceAccount", "stronger", "in \"\""}, func(s *scene) {
			s.account("stronger", profile{cluster: []rbacv1.PolicyRule{rule("", "secrets", "list")}})
		}},
		{"I1", "a binding that gives somebody else more than the account", []string{"I1", "rolebindings", "pods/exec"}, func(s *scene) {
			boss := s.bearing(s.Namespace, bossName)
			require.NoError(s.T, boss.Create(s.T.Context(), &rbacv1.Role{ObjectMeta: s.Meta("gift"), Rules: []rbacv1.PolicyRule{rule("", "pods/exec", "create")}}))
			require.NoError(s.T, boss.Create(s.T.Context(), &rbacv1.RoleBinding{ObjectMeta: s.Meta("gift"),
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "gift"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "anybody"}}}))
		}},
		{"I2", "a write of Remit's own identity", []string{"I2", "configmaps"}, func(s *scene) {
			self := s.bearing(names.DefaultNamespace, names.ServiceAccountCatalog)
			require.Error(s.T, self.Create(s.T.Context(), &corev1.ConfigMap{ObjectMeta: s.Meta("by-self")}))
		}},
		{"I3", "a change in the neighbour's namespace", []string{"I3", neighbour, "was made"}, func(s *scene) {
			cm := &corev1.ConfigMap{}
			cm.Namespace, cm.Name = neighbour, "intruder"
			require.NoError(s.T, s.bearing(s.Namespace, bossName).Create(s.T.Context(), cm))
			s.T.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), cm) })
		}},
		{"I4", "a token in a ConfigMap", []string{"I4", "configmaps", "serviceaccount:"}, func(s *scene) {
			s.createOutside(&corev1.ConfigMap{ObjectMeta: s.Meta("leak"), Data: map[string]string{"log": "Bearer " + s.token(s.Namespace, accountName)}})
		}},
		{"I4", "the beginning of a token in a Secret", []string{"I4", "Secret", "holds"}, func(s *scene) {
			s.createOutside(&corev1.Secret{ObjectMeta: s.Meta("leak"), StringData: map[string]string{"note": s.token(s.Namespace, accountName)[:200]}})
		}},
		{"I4", "what a neighbour keeps to itself", []string{"I4", "configmaps", neighbour}, func(s *scene) {
			s.createOutside(&corev1.ConfigMap{ObjectMeta: s.Meta("leak"), Data: map[string]string{"found": secretValue}})
		}},
	} {
		t.Run(c.invariant+" "+c.breach, func(t *testing.T) {
			s := newScene(t, row{number: "oracle", holds: p0(), boss: true})
			c.do(s)
			err := judge.Check(t.Context(), &s.told)
			for _, w := range c.words {
				require.ErrorContains(t, err, w)
			}
			s.leave()
		})
	}
}

// token is one of a ServiceAccount.
func (s *scene) token(namespace, name string) string {
	s.T.Helper()
	sa := &corev1.ServiceAccount{}
	sa.Namespace, sa.Name = namespace, name
	request := &authenticationv1.TokenRequest{}
	require.NoError(s.T, cluster.Client.SubResource("token").Create(s.T.Context(), sa, request))
	return request.Status.Token
}

// bearing is a client that has nothing but a ServiceAccount's token, as a program has.
func (s *scene) bearing(namespace, name string) client.WithWatch {
	s.T.Helper()
	config := rest.AnonymousClientConfig(cluster.Config())
	config.BearerToken = s.token(namespace, name)
	c, err := client.NewWithWatch(config, client.Options{Scheme: cluster.Client.Scheme(), Mapper: cluster.Client.RESTMapper()})
	require.NoError(s.T, err)
	return c
}
