package escape

import (
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/escape/forge"
)

// chainLength is the number of ClusterServiceVersions, each replacing the previous one, that a tenant creates.
const chainLength = 200

// neighbors returns rows in which a tenant tries to block or deceive other tenants.
func neighbors() []row {
	return []row{
		{number: "160", title: "two hundred ClusterServiceVersions in a chain", holds: p0(), long: true, play: func(s *scene) {
			s.group(s.Namespace)
			author := s.csvAuthor()
			for i := range chainLength {
				link := forge.NewCSV(linkName(i)).RenameObjects(fmt.Sprintf("chain-%d", i)).
					Set(map[string]any{names.LabelLineage: "forged"}, "metadata", "labels")
				if i > 0 {
					link = link.Set(linkName(i-1), "spec", "replaces")
				}
				require.NoError(s.T, s.apply(author, link.Object))
			}
			s.Eventually(func(c *assert.CollectT) {
				assert.NotEmpty(c, s.CSV(c, linkName(chainLength-1)).Status.Phase)
			})
			s.settle() // another tenant's install must complete in time
			reads := s.requests(func(e audit.Event) bool {
				return e.User.Username == scoped.Username(names.DefaultNamespace, names.ServiceAccountOLM) && e.Verb == "get" &&
					e.Object != nil && e.Object.Resource == "clusterserviceversions" && e.Object.Namespace == s.Namespace
			})
			require.LessOrEqual(s.T, len(reads), 5*chainLength, "other CSVs must not be read one by one")
		}},
		{number: "197", title: "a binding to a Role that a plan will create", holds: p0(), play: func(s *scene) {
			ip := s.waiting()
			role := ""
			for _, st := range ip.Status.Plan {
				if st.Resource.Kind == "Role" {
					role = st.Resource.Name
				}
			}
			require.NotEmpty(s.T, role)
			theirs := s.plant(role)
			s.approve(cluster.Client, ip)
			s.planSays("RoleBinding "+s.Namespace+"/"+theirs.Name, "would grant its subjects the operator's permissions")
			s.nothingWritten()
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), theirs))
			s.Succeeded(probeCSV)
			require.Error(s.T, s.knownAs("stranger").List(s.T.Context(), &corev1.ConfigMapList{}, client.InNamespace(s.Namespace)))
		}},
		{number: "197-direct", title: "a binding to the Role of a CSV that a tenant will create", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			mallory := s.mallory()
			require.NoError(s.T, s.apply(mallory, csv().Object))
			s.csvSays(succeeded)
			roles := &rbacv1.RoleList{}
			require.NoError(s.T, cluster.Client.List(s.T.Context(), roles, client.InNamespace(s.Namespace), client.HasLabels{names.LabelPermissionsHash}))
			require.Len(s.T, roles.Items, 1)
			s.removeCSV()
			s.Eventually(func(c *assert.CollectT) { assert.Error(c, s.Get(roles.Items[0].Name, &rbacv1.Role{})) })
			theirs := s.plant(roles.Items[0].Name)
			require.NoError(s.T, s.apply(mallory, csv().Object))
			s.csvSays(pending, "RoleBinding "+s.Namespace+"/"+theirs.Name, "would grant its subjects the operator's permissions")
			s.noDeployments()
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), theirs))
			s.csvSays(succeeded)
		}},
		{number: "161", title: "a Role that is created with the name of a grant before the grant is applied", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv().Permissions(forge.Entry(forge.ServiceAccount, `{apiGroups: [batch], resources: [jobs], verbs: [create]}`))))
			message := s.isMissing("jobs")
			_, grant, found := strings.Cut(message, "apply:\n---\n")
			require.True(s.T, found, message)
			wanted := &rbacv1.Role{}
			require.NoError(s.T, yaml.Unmarshal([]byte(strings.Split(grant, "---\n")[0]), wanted))

			stranger := s.stranger()
			require.NoError(s.T, stranger.Create(s.T.Context(), &rbacv1.Role{ObjectMeta: s.Meta(wanted.Name)}))
			// A binding to the Role that the report names is refused, regardless of the binding's name.
			for _, name := range []string{"theirs", wanted.Name} {
				require.ErrorContains(s.T, stranger.Create(s.T.Context(), &rbacv1.RoleBinding{ObjectMeta: s.Meta(name),
					RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: wanted.Name},
					Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "stranger"}}}), "only the ServiceAccount in its name may be bound to it")
			}

			// The report warns about the existing Role. Applying the report anyway fails, so the stranger does not get the
			// permissions.
			s.Eventually(func(c *assert.CollectT) {
				got := s.Plan(c).Status.GetCondition(operatorsv1alpha1.InstallPlanConditionType(names.ConditionPermissionsMissing))
				assert.Equal(c, corev1.ConditionTrue, got.Status)
				assert.Contains(c, got.Message, "WARNING: Role "+s.Namespace+"/"+wanted.Name+" exists with different rules")
			})
			live := &rbacv1.Role{}
			require.NoError(s.T, s.Get(wanted.Name, live))
			live.Rules = wanted.Rules
			require.ErrorContains(s.T, cluster.Client.Update(s.T.Context(), live), "cannot be changed")
			require.NoError(s.T, s.Get(wanted.Name, live))
			require.Empty(s.T, live.Rules)

			// After the stranger's Role is deleted, applying the report grants the permissions to the account.
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), live))
			s.Eventually(func(c *assert.CollectT) {
				got := s.Plan(c).Status.GetCondition(operatorsv1alpha1.InstallPlanConditionType(names.ConditionPermissionsMissing))
				assert.NotContains(c, got.Message, "WARNING")
			})
			s.Paste(s.PermissionsMissing())
			s.Succeeded(probeCSV)
		}},
	}
}

func linkName(i int) string { return fmt.Sprintf("chain.v%d.0.0", i) }

func (s *scene) strangersBinding(role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: s.Meta("theirs"),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "stranger"}}}
}

// plant creates, as the stranger, a binding to a Role and then deletes the Role, so that the binding refers to a Role
// that does not exist.
func (s *scene) plant(role string) *rbacv1.RoleBinding {
	s.T.Helper()
	stranger, theirs := s.stranger(), s.strangersBinding(role)
	empty := &rbacv1.Role{ObjectMeta: s.Meta(role)}
	require.NoError(s.T, stranger.Create(s.T.Context(), empty))
	s.Eventually(func(c *assert.CollectT) { // the API server may not have observed the Role yet
		err := stranger.Create(s.T.Context(), theirs.DeepCopy())
		assert.True(c, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	})
	require.NoError(s.T, stranger.Delete(s.T.Context(), empty))
	return theirs
}
