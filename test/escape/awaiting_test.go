package escape

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// awaitings returns rows about bindings to an operator's role that is empty or does not exist.
func awaitings() []row {
	return []row{
		{number: "209", title: "a Role that is emptied with the install's field manager, and bound", holds: p0(), long: true, play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			stranger := s.patcher()
			role := s.operatorRole()
			require.Error(s.T, stranger.Create(s.T.Context(), s.strangersBinding(role.Name)))
			theirs := s.strangersBinding(role.Name)
			s.persistently(func() bool {
				return s.empty(stranger, role) == nil && stranger.Create(s.T.Context(), theirs.DeepCopy()) == nil
			})
			s.hindered("RoleBinding "+s.Namespace+"/"+theirs.Name, role.Name, "would grant its subjects the operator's permissions", "delete it")
			s.keptFromMaps()
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), theirs))
			s.csvSays(succeeded)
			s.keptFromMaps()
		}},
		{number: "210", title: "an install's own binding, whose subjects a stranger replaces while its Role does not exist", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			stranger, role := s.stranger(), s.operatorRole()
			own := &rbacv1.RoleBinding{}
			require.NoError(s.T, s.Get(role.Name, own))
			own.Subjects = s.strangersBinding("").Subjects
			own.ResourceVersion = ""
			s.persistently(func() bool {
				empty := &rbacv1.Role{ObjectMeta: s.Meta(role.Name)}
				_ = stranger.Delete(s.T.Context(), empty)
				if stranger.Create(s.T.Context(), empty) != nil {
					return false // Remit recreated it first
				}
				err := stranger.Update(s.T.Context(), own.DeepCopy())
				for range 200 { // the API server may not have observed the Role yet
					if err == nil {
						break
					}
					err = stranger.Update(s.T.Context(), own.DeepCopy())
				}
				require.NoError(s.T, client.IgnoreNotFound(stranger.Delete(s.T.Context(), empty)))
				return err == nil
			})
			s.hindered("RoleBinding "+s.Namespace+"/"+own.Name, "its subjects", "delete it")
			s.keptFromMaps()
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), own))
			s.csvSays(succeeded)
			s.keptFromMaps()
			require.NoError(s.T, s.Get(role.Name, own))
			require.Equal(s.T, forge.ServiceAccount, own.Subjects[0].Name)
		}},
		{number: "211", title: "a binding to the Role of a certificate, created before the Role", holds: calling(p0()), play: func(s *scene) {
			s.allow(func(c oracle.Change) bool { return s.isForHooks(c) })
			secret := forge.Deployment + "-service-cert"
			theirs := s.plant(secret)
			s.install(bundleOf(hooked(csv(), harmless())))
			says := []string{"RoleBinding " + s.Namespace + "/" + theirs.Name, "Role " + s.Namespace + "/" + secret, "delete it"}
			s.planSays(append(says, "nothing was written")...)
			require.NoError(s.T, s.apply(s.mallory(), hooked(csv(), harmless()).Object)) // without a plan
			s.hindered(says...)
			s.noDeployments()
			read := func() error {
				return s.knownAs("stranger").Get(s.T.Context(), client.ObjectKey{Namespace: s.Namespace, Name: secret}, &corev1.Secret{})
			}
			require.True(s.T, apierrors.IsForbidden(read()))
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), theirs))
			s.csvSays(succeeded)
			require.True(s.T, apierrors.IsForbidden(read()))
			s.removeCSV() // otherwise, its webhook is deleted during a later row
			s.uncalled()
		}},
	}
}

// patcher returns a client for the stranger, who may also read and patch Roles.
func (s *scene) patcher() client.Client {
	s.T.Helper()
	s.bind(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "stranger"}, "patcher",
		profile{own: []rbacv1.PolicyRule{rule(rbacv1.GroupName, "roles", "get", "patch")}})
	stranger := s.stranger()
	s.Eventually(func(c *assert.CollectT) {
		err := stranger.Get(s.T.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "absent"}, &rbacv1.Role{})
		assert.True(c, apierrors.IsNotFound(err), "%v", err)
	})
	return stranger
}

// operatorRole returns the only Role that was rendered from the permissions of the scene's CSV.
func (s *scene) operatorRole() *rbacv1.Role {
	s.T.Helper()
	roles := &rbacv1.RoleList{}
	require.NoError(s.T, cluster.Client.List(s.T.Context(), roles, client.InNamespace(s.Namespace), client.HasLabels{names.LabelPermissionsHash}))
	require.Len(s.T, roles.Items, 1)
	return &roles.Items[0]
}

// empty removes the rules of a Role by applying it with the field manager of the scene's install.
func (s *scene) empty(c client.Client, role *rbacv1.Role) error {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": []any{}}}
	obj.SetName(role.Name)
	obj.SetNamespace(role.Namespace)
	obj.SetLabels(role.Labels)
	obj.SetAnnotations(role.Annotations)
	obj.SetOwnerReferences(role.OwnerReferences)
	return c.Apply(s.T.Context(), client.ApplyConfigurationFromUnstructured(obj), s.manager())
}

// persistently repeats the attempt until it succeeds, as a user's script would, because Remit can win the race against
// any single attempt.
func (s *scene) persistently(attempt func() bool) {
	s.T.Helper()
	for range 500 {
		if attempt() {
			return
		}
	}
	require.Fail(s.T, "all 500 attempts failed")
}

// hindered waits until the CSV is in a phase other than Succeeded and its message contains the words.
func (s *scene) hindered(words ...string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		csv := s.CSV(c, probeCSV)
		assert.NotEqual(c, succeeded, csv.Status.Phase)
		for _, w := range words {
			assert.Contains(c, csv.Status.Message, w)
		}
	})
}

// keptFromMaps asserts that the stranger cannot list ConfigMaps, although the operator can, after all pending work has
// finished.
func (s *scene) keptFromMaps() {
	s.T.Helper()
	s.settle()
	err := s.knownAs("stranger").List(s.T.Context(), &corev1.ConfigMapList{}, client.InNamespace(s.Namespace))
	require.True(s.T, apierrors.IsForbidden(err), "%v", err)
}
