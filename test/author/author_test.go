package author

import (
	"fmt"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
)

const namesBoss = "may not impersonate ServiceAccount <ns>/" + boss + ", which spec.serviceAccountName names"

// everyProfile runs a test in each profile, that is, with and without a default account.
func everyProfile(t *testing.T, test func(*site)) {
	for _, profile := range manifests.Profiles() {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			test(newSite(t, profile))
		})
	}
}

func TestAnAuthorCanNameAnAccountThatTheyMayImpersonate(t *testing.T) {
	everyProfile(t, func(s *site) {
		require.NoError(s, s.alice.Create(s.Context(), s.group("group", installer)))
		s.denied(s.alice.Create(s.Context(), s.group("other", boss)), namesBoss)
		s.denied(s.carol.Create(s.Context(), s.group("other", installer)), "/installer, which spec.serviceAccountName names")
		s.denied(s.alice.Create(s.Context(), s.group("other", boss), client.DryRunAll), namesBoss)
	})
}

func TestTheAdministratorCanNameAnyAccount(t *testing.T) {
	everyProfile(t, func(s *site) {
		og := s.made("nobody")
		require.NoError(s, rename(og, boss)(s, s.admin))
	})
}

// The cases cover all ways in which a request can change spec.serviceAccountName.
func TestChecksEveryChangeOfTheName(t *testing.T) {
	for name, change := range map[string]func(s *site, c client.Client, account string) error{
		"update": func(s *site, c client.Client, account string) error {
			og := &operatorsv1.OperatorGroup{}
			require.NoError(s, s.admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "group"}, og))
			return rename(og, account)(s, c)
		},
		"merge patch": func(s *site, c client.Client, account string) error {
			patch := fmt.Appendf(nil, `{"spec":{"serviceAccountName":%q}}`, account)
			return c.Patch(s.Context(), s.group("group", ""), client.RawPatch(types.MergePatchType, patch))
		},
		"JSON patch": func(s *site, c client.Client, account string) error {
			patch := fmt.Appendf(nil, `[{"op":"add","path":"/spec/serviceAccountName","value":%q}]`, account)
			return c.Patch(s.Context(), s.group("group", ""), client.RawPatch(types.JSONPatchType, patch))
		},
		"server-side apply": func(s *site, c client.Client, account string) error {
			return c.Apply(s.Context(), s.applied("v1", "group", account), client.FieldOwner("me"), client.ForceOwnership)
		},
		"the older version of the API": func(s *site, c client.Client, account string) error {
			return c.Apply(s.Context(), s.applied("v1alpha2", "group", account), client.FieldOwner("me"), client.ForceOwnership)
		},
		"delete and create": func(s *site, c client.Client, account string) error {
			require.NoError(s, c.Delete(s.Context(), s.group("group", "")))
			return c.Create(s.Context(), s.group("group", account))
		},
	} {
		t.Run(name, func(t *testing.T) {
			everyProfile(t, func(s *site) {
				s.made("other")
				s.denied(change(s, s.alice, boss), namesBoss)
				if name == "delete and create" {
					s.made("other")
				}
				require.Equal(s, "other", s.named("group"))

				require.NoError(s, change(s, s.alice, installer))
				require.Equal(s, installer, s.named("group"))
			})
		})
	}
}

func (s *site) applied(version, name, account string) runtime.ApplyConfiguration {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"serviceAccountName": account}}}
	obj.SetAPIVersion("operators.coreos.com/" + version)
	obj.SetKind("OperatorGroup")
	obj.SetNamespace(s.namespace)
	obj.SetName(name)
	return client.ApplyConfigurationFromUnstructured(obj)
}

func TestServerSideApplyThatCreatesIsChecked(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.denied(s.alice.Apply(s.Context(), s.applied("v1", "new", boss), client.FieldOwner("me")), namesBoss)
		require.NoError(s, s.alice.Apply(s.Context(), s.applied("v1", "new", installer), client.FieldOwner("me")))
	})
}

func TestTheStatusEndpointDoesNotChangeTheName(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.made(installer)
		patch := []byte(`{"spec":{"serviceAccountName":"boss"},"status":{"lastUpdated":"2026-11-21T00:00:00Z","serviceAccountRef":{"name":"boss"}}}`)
		require.NoError(s, s.alice.Status().Patch(s.Context(), s.group("group", ""), client.RawPatch(types.MergePatchType, patch)))
		require.Equal(s, installer, s.named("group"))
	})
}

// Both decide which versions the Subscriptions of the namespace resolve to.
func TestChangesToWhatAGroupResolvesAreChecked(t *testing.T) {
	everyProfile(t, func(s *site) {
		og := s.made(boss)
		for _, edit := range []string{
			`{"spec":{"upgradeStrategy":"TechPreviewUnsafeFailForward"}}`,
			`{"metadata":{"annotations":{"olm.operatorframework.io/exclude-global-namespace-resolution":"true"}}}`,
		} {
			patch := client.RawPatch(types.MergePatchType, []byte(edit))
			s.denied(s.alice.Patch(s.Context(), og.DeepCopy(), patch), namesBoss)
			require.NoError(s, s.admin.Patch(s.Context(), og.DeepCopy(), patch))
		}
	})
}

func TestASecondGroupIsChecked(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.made(installer)
		s.denied(s.alice.Create(s.Context(), s.group("second", boss)), namesBoss)
		og := s.group("second", installer)
		require.NoError(s, s.alice.Create(s.Context(), og))
		s.denied(rename(og, boss)(s, s.alice), namesBoss)
	})
}

// carol is not allowed to impersonate any account, but can change other fields.
func TestOtherChangesAreNotChecked(t *testing.T) {
	for _, account := range []string{boss, ""} {
		t.Run("account "+account, func(t *testing.T) {
			everyProfile(t, func(s *site) {
				og := s.made(account)
				for _, edit := range []func(*operatorsv1.OperatorGroup){
					func(og *operatorsv1.OperatorGroup) { og.Labels = map[string]string{"a": "b"} },
					func(og *operatorsv1.OperatorGroup) { og.Annotations = map[string]string{"a": "b"} },
					func(og *operatorsv1.OperatorGroup) { og.Finalizers = []string{"example.com/keep"} },
				} {
					edit(og)
					require.NoError(s, s.carol.Update(s.Context(), og))
				}
				require.NoError(s, s.carol.Delete(s.Context(), og))
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				require.NoError(s, s.carol.Patch(s.Context(), og, patch))
			})
		})
	}
}

// A selector is evaluated with the account's permissions, and the OperatorGroup's status lists the selected namespaces.
func TestChecksASelectorThatTakesEffect(t *testing.T) {
	everyProfile(t, func(s *site) {
		og := s.made(boss)
		edit := func(c client.Client, change func(*operatorsv1.OperatorGroupSpec)) error {
			after := og.DeepCopy()
			change(&after.Spec)
			err := c.Update(s.Context(), after)
			if err == nil {
				og = after
			}
			return err
		}
		selecting := func(team string) func(*operatorsv1.OperatorGroupSpec) {
			return func(spec *operatorsv1.OperatorGroupSpec) {
				spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
			}
		}
		list := func(targets ...string) func(*operatorsv1.OperatorGroupSpec) {
			return func(spec *operatorsv1.OperatorGroupSpec) { spec.TargetNamespaces = targets }
		}
		require.NoError(s, edit(s.carol, selecting("a")), "the list takes precedence")
		s.denied(edit(s.carol, list()), namesBoss)
		require.NoError(s, edit(s.admin, list()))
		s.denied(edit(s.carol, selecting("b")), namesBoss)
		s.denied(edit(s.carol, func(spec *operatorsv1.OperatorGroupSpec) { spec.Selector = nil }), namesBoss) // all namespaces
		require.NoError(s, edit(s.admin, list(s.namespace, "other")))
		require.NoError(s, edit(s.carol, func(spec *operatorsv1.OperatorGroupSpec) { spec.Selector = nil }))
	})
}

// The account grants its operators permissions in the targets: with another list, a user who may not use it would choose where.
func TestChecksOtherTargets(t *testing.T) {
	for profile, account := range map[string]string{manifests.ProfileBounded: boss, manifests.ProfileCompat: ""} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, profile)
			og := s.made(account)
			for _, targets := range [][]string{{"kube-system"}, {s.namespace, "kube-system"}, nil} {
				after := og.DeepCopy()
				after.Spec.TargetNamespaces = targets
				require.ErrorContains(s, s.carol.Update(s.Context(), after), "may not impersonate ServiceAccount", "%v", targets)
				require.NoError(s, s.admin.Update(s.Context(), after, client.DryRunAll))
			}
		})
	}
}

func TestChecksAnAccountThatIsNamedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, manifests.ProfileBounded)
	og := s.made(boss)
	og.Spec.ServiceAccountName = ""
	require.NoError(t, s.alice.Update(t.Context(), og), "without a default account, an empty name refers to no account")
	s.denied(rename(og, boss)(s, s.alice), namesBoss)
	require.NoError(t, rename(og, installer)(s, s.alice))
}

func TestAGroupMayOmitTheNameWithoutADefaultAccount(t *testing.T) {
	t.Parallel()
	s := newSite(t, manifests.ProfileBounded)
	require.NoError(t, s.carol.Create(t.Context(), s.group("group", "")))
}

func TestChecksThePermissionOfTheRequestsUser(t *testing.T) {
	everyProfile(t, func(s *site) {
		user := scoped.Username(s.namespace, "ci")
		s.grant(user, rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorgroups"}, Verbs: []string{"*"}})
		c := s.cluster.As(s.T, user, rbac.ServiceAccount(s.namespace, "").Groups...)
		s.eventually(func(c2 *assert.CollectT) {
			assert.ErrorContains(c2, c.Create(s.Context(), s.group("group", installer)), policy)
		})
		s.denied(c.Create(s.Context(), s.group("group", installer)), "user '"+user+"' may not impersonate")

		s.grantIn("default", user, impersonate(installer))
		s.denied(c.Create(s.Context(), s.group("group", installer)), "may not impersonate") // in another namespace

		s.grant(user, impersonate())
		s.eventually(func(c2 *assert.CollectT) { assert.NoError(c2, c.Create(s.Context(), s.group("group", installer))) })
	})
}

// The default role admin lets users impersonate all ServiceAccounts in a namespace, just as it lets them run Pods as
// these accounts. Such users cannot make an OperatorGroup use the accounts, but only because the role does not let them
// write OperatorGroups.
func TestANamespaceAdministratorWhoMayWriteGroupsCanNameItsAccounts(t *testing.T) {
	everyProfile(t, func(s *site) {
		meta := s.meta("admin")
		s.create(&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "team"}},
		})
		dave := s.cluster.As(s.T, "dave", "team")
		err := dave.Create(s.Context(), s.group("group", boss))
		require.ErrorContains(s, err, `cannot create resource "operatorgroups"`)

		s.grant("dave", rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorgroups"}, Verbs: []string{"create"}})
		s.eventually(func(c *assert.CollectT) { assert.NoError(c, dave.Create(s.Context(), s.group("group", boss))) })
	})
}

func TestRejectsInvalidAccountNames(t *testing.T) {
	everyProfile(t, func(s *site) {
		for _, name := range []string{"/", "..", "remit/remit-default", "Installer", "*", "installer ", "a\nb", strings.Repeat("a", 300)} {
			err := s.alice.Create(s.Context(), s.group("group", name))
			if strings.Contains(name, "\n") {
				s.denied(err, "the author is not allowed to impersonate the ServiceAccount that spec.serviceAccountName names")
				continue
			}
			s.denied(err, "No ServiceAccount can have that name.")
			require.NotContains(s, err.Error(), "kubectl")
		}
	})
}

func TestTheMessageContainsTheCommandToGrant(t *testing.T) {
	t.Parallel()
	s := newSite(t, manifests.ProfileBounded)
	for _, user := range []string{"mallory/o'hara $(reboot)", "group:50%~1"} {
		s.grant(user, rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorgroups"}, Verbs: []string{"create"}})
		mallory := s.cluster.As(t, user)
		role := scoped.Authorship(client.ObjectKey{Namespace: s.namespace, Name: installer}, rbacv1.Subject{Kind: rbacv1.UserKind, Name: user})[0].GetName()
		s.eventually(func(c *assert.CollectT) {
			assert.ErrorContains(c, mallory.Create(t.Context(), s.group("group", installer)), fmt.Sprintf(
				"kubectl create role %[1]s -n %[2]s --verb=impersonate --resource=serviceaccounts --resource-name=installer && "+
					"kubectl create rolebinding %[1]s -n %[2]s --role=%[1]s --user=%[3]s", quote(role), s.namespace, quote(user)))
		})
	}
}

// quote quotes a word for use in a shell command.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// A type error in an expression surfaces only when a request evaluates the expression, and then every request is
// refused. The controller manager checks the types earlier.
func TestTheExpressionsOfThePoliciesHaveTheRightTypes(t *testing.T) {
	for _, profile := range manifests.Profiles() {
		list := &admissionregistrationv1.ValidatingAdmissionPolicyList{}
		(&env.Tenant{T: t}).Eventually(func(ct *assert.CollectT) {
			assert.NoError(ct, clusters[profile].Client.List(t.Context(), list))
			for _, got := range list.Items {
				assert.Equal(ct, got.Generation, got.Status.ObservedGeneration, got.Name)
				if assert.NotNil(ct, got.Status.TypeChecking, got.Name) {
					assert.Empty(ct, got.Status.TypeChecking.ExpressionWarnings, got.Name)
				}
			}
		})
		var names []string
		for _, p := range list.Items {
			names = append(names, p.Name)
		}
		require.Subset(t, names, []string{"remit-author-check", "remit-csv-author-check", "remit-grants"})
	}
}
