package author

import (
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

const (
	csvPolicy = "'remit-csv-author-check'"
	noGroup   = "'remit-create-the-operatorgroup-before-the-clusterserviceversion'"

	noGroupForPlan = "'remit-create-the-operatorgroup-before-the-installplan'"
)

// csv returns a ClusterServiceVersion that has not been created yet.
func (s *site) csv(name string) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: s.meta(name)}
	csv.Spec.DisplayName = name
	csv.Spec.InstallStrategy.StrategyName = "deployment"
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{}
	return csv
}

// writesCSVs allows all users of the site to write ClusterServiceVersions and their status, and returns once the API
// server's caches contain these permissions and, if group is set, the namespace's OperatorGroup.
func (s *site) writesCSVs(group bool, users ...client.Client) {
	s.Helper()
	csvs := rbacv1.PolicyRule{
		APIGroups: []string{"operators.coreos.com"}, Resources: []string{"clusterserviceversions", "clusterserviceversions/status"}, Verbs: []string{"*"},
	}
	for _, user := range []string{alice, carol, scoped.Username(s.namespace, installer), scoped.Username(s.namespace, boss)} {
		s.grant(user, csvs)
	}
	for _, user := range users {
		s.eventually(func(c *assert.CollectT) {
			err := user.Create(s.Context(), s.csv("probe"), client.DryRunAll)
			if apierrors.IsForbidden(err) {
				assert.ErrorContains(c, err, csvPolicy)
			}
			if group && err != nil {
				assert.NotContains(c, err.Error(), "no params found")
			}
		})
	}
}

// deniedCSV asserts that the author check of ClusterServiceVersions refused a request with a message that contains the
// given text.
func (s *site) deniedCSV(err error, says string) {
	s.Helper()
	require.Error(s, err)
	require.True(s, apierrors.IsForbidden(err), "%v", err)
	require.Contains(s, err.Error(), csvPolicy)
	require.Contains(s, strings.ReplaceAll(err.Error(), s.namespace+"/", "<ns>/"), says)
}

func TestUsersWhoMayActAsTheAccountCanWriteCSVs(t *testing.T) {
	everyProfile(t, func(s *site) {
		account := s.cluster.As(t, scoped.Username(s.namespace, installer))
		s.made(installer)
		s.writesCSVs(true, s.alice, s.carol, account)
		require.NoError(s, s.alice.Create(s.Context(), s.csv("by-alice")))
		require.NoError(s, account.Create(s.Context(), s.csv("by-the-account")))
		require.NoError(s, s.admin.Create(s.Context(), s.csv("by-the-administrator")))
		s.deniedCSV(s.carol.Create(s.Context(), s.csv("by-carol")), "user 'carol' may not impersonate ServiceAccount <ns>/installer, which OperatorGroup <ns>/group")
		s.deniedCSV(s.carol.Create(s.Context(), s.csv("by-carol")), "--resource-name=installer && kubectl create rolebinding")
		s.deniedCSV(s.cluster.As(t, scoped.Username(s.namespace, boss)).Create(s.Context(), s.csv("by-boss")), "<ns>/installer")
	})
}

// The label of a copy decides whether a ClusterServiceVersion is installed. In a namespace without an OperatorGroup, the author
// check does not apply, so another policy protects the label.
func TestOnlyUsersWhoMayImpersonateEveryAccountChangeTheLabelOfCopies(t *testing.T) {
	everyProfile(t, func(s *site) {
		for _, withGroup := range []bool{false, true} {
			if withGroup {
				s.made(installer)
			}
			s.writesCSVs(withGroup, s.alice, s.carol)
			name := fmt.Sprintf("copied-%t", withGroup)
			csv := s.csv(name)
			csv.Labels = map[string]string{names.LabelCopiedFrom: "other"}
			for _, c := range []client.Client{s.alice, s.carol} {
				require.True(s, apierrors.IsForbidden(c.Create(s.Context(), csv.DeepCopy())))
			}
			require.NoError(s, s.admin.Create(s.Context(), csv.DeepCopy()))
			for _, patch := range []string{`{"metadata":{"labels":{"olm.copiedFrom":null}}}`, `{"metadata":{"labels":{"olm.copiedFrom":"another"}}}`} {
				for _, c := range []client.Client{s.alice, s.carol} {
					require.True(s, apierrors.IsForbidden(c.Patch(s.Context(), s.csv(name), client.RawPatch(types.MergePatchType, []byte(patch)))))
				}
			}
			require.NoError(s, s.alice.Patch(s.Context(), s.csv(name), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
		}
	})
}

// Remit reconciles no copy, so that the label would keep what a version has installed although its account has lost the permissions.
func TestAVersionCannotBecomeACopy(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.made(installer)
		s.create(s.csv("probe"))
		for _, from := range []string{"other", s.namespace, ""} {
			err := s.admin.Patch(s.Context(), s.csv("probe"), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"olm.copiedFrom":%q}}}`, from)))
			require.ErrorContains(s, err, "a ClusterServiceVersion cannot become a copy; to uninstall it, delete it")
		}
	})
}

// The author check does not apply to copies, and only to some changes while there is no OperatorGroup. Otherwise, a user who may not
// use the default account could create a copy and remove the label before an OperatorGroup uses that account.
func TestACopyCannotBecomeAVersion(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.grant(carol, impersonate()) // all ServiceAccounts in the namespace
		for _, withGroup := range []bool{false, true} {
			if withGroup {
				s.made(installer)
			}
			s.writesCSVs(withGroup, s.carol)
			for _, from := range []string{"other", s.namespace, ""} {
				csv := s.csv("copied-" + rand.String(6))
				csv.Labels = map[string]string{names.LabelCopiedFrom: from}
				s.eventually(func(c *assert.CollectT) {
					assert.NoError(c, s.carol.Create(s.Context(), csv.DeepCopy(), client.DryRunAll))
				})
				require.NoError(s, s.carol.Create(s.Context(), csv.DeepCopy()))
				for _, patch := range []string{
					`{"metadata":{"labels":null}}`, `{"metadata":{"labels":{"olm.copiedFrom":null}}}`, `{"metadata":{"labels":{"olm.copiedFrom":null}},"spec":{"displayName":"x"}}`,
					`{"metadata":{"labels":{"olm.copiedFrom":null,"remit.dev/any-account":""}}}`,
				} {
					for _, c := range []client.Client{s.carol, s.admin} {
						err := c.Patch(s.Context(), csv.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
						require.True(s, apierrors.IsForbidden(err), "%s: %v", patch, err)
					}
					err := s.admin.Patch(s.Context(), csv.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
					require.ErrorContains(s, err, "the label olm.copiedFrom of a copy cannot be removed")
				}
				require.NoError(s, s.admin.Delete(s.Context(), csv))
			}
		}
	})
}

// Each case changes the spec in a different way.
func TestUsersWhoMayNotActAsTheAccountCannotChangeASpec(t *testing.T) {
	patch := func(kind types.PatchType, body string) func(*site, client.Client) error {
		return func(s *site, c client.Client) error {
			return c.Patch(s.Context(), s.csv("probe"), client.RawPatch(kind, []byte(body)))
		}
	}
	for name, change := range map[string]func(*site, client.Client) error{
		"merge patch":         patch(types.MergePatchType, `{"spec":{"displayName":"another"}}`),
		"properties":          patch(types.MergePatchType, `{"metadata":{"annotations":{"operatorframework.io/properties":"{}"}}}`),
		"JSON patch":          patch(types.JSONPatchType, `[{"op":"add","path":"/spec/displayName","value":"another"}]`),
		"spec and generation": patch(types.MergePatchType, `{"metadata":{"generation":1},"spec":{"displayName":"another"}}`),
		"update": func(s *site, c client.Client) error {
			csv := s.csv("probe")
			require.NoError(s, s.admin.Get(s.Context(), client.ObjectKeyFromObject(csv), csv))
			csv.Spec.DisplayName = "another"
			return c.Update(s.Context(), csv)
		},
		"server-side apply": func(s *site, c client.Client) error {
			obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"displayName": "another"}}}
			obj.SetAPIVersion("operators.coreos.com/v1alpha1")
			obj.SetKind("ClusterServiceVersion")
			obj.SetNamespace(s.namespace)
			obj.SetName("probe")
			return c.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("me"), client.ForceOwnership)
		},
	} {
		t.Run(name, func(t *testing.T) {
			everyProfile(t, func(s *site) {
				s.made(installer)
				s.writesCSVs(true, s.alice, s.carol)
				csv := s.csv("probe")
				csv.Labels = map[string]string{names.LabelCopiedFrom: "other"}
				s.create(csv)
				s.deniedCSV(change(s, s.carol), "<ns>/installer")
				require.NoError(s, change(s, s.alice))
			})
		})
	}
}

func TestOtherChangesOfACSVAreNotChecked(t *testing.T) {
	for _, account := range []string{installer, ""} {
		t.Run("account "+account, func(t *testing.T) {
			everyProfile(t, func(s *site) {
				og := s.made(account)
				s.writesCSVs(true, s.carol)
				csv := s.csv("probe")
				s.create(csv)
				for n, body := range []string{
					`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`, `{"metadata":{"finalizers":["example.com/keep"]}}`,
				} {
					if n == 2 {
						require.NoError(s, s.admin.Delete(s.Context(), og)) // finalizers can be removed without an OperatorGroup
					}
					require.NoError(s, s.carol.Patch(s.Context(), csv, client.RawPatch(types.MergePatchType, []byte(body))))
				}
				status := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"displayName":"another"},"status":{"message":"x"}}`))
				require.NoError(s, s.carol.Status().Patch(s.Context(), csv, status))
				require.Equal(s, "probe", csv.Spec.DisplayName)
				require.NoError(s, s.carol.Delete(s.Context(), csv))
				require.NoError(s, s.carol.Patch(s.Context(), csv, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			})
		})
	}
}

func TestRefusesACSVWithoutAnOperatorGroup(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.writesCSVs(false, s.alice)
		for _, c := range []client.Client{s.alice, s.carol} {
			err := c.Create(s.Context(), s.csv("early"))
			require.ErrorContains(s, err, noGroup)
			require.ErrorContains(s, err, "no params found")
		}
		require.NoError(s, s.admin.Create(s.Context(), s.csv("by-the-administrator")), "the administrator may use every account (docs/adr/0077)")
		label := fmt.Appendf(nil, `{"metadata":{"labels":{"remit.dev/clusterserviceversion-first":""}}}`)
		namespace := &unstructured.Unstructured{}
		namespace.SetAPIVersion("v1")
		namespace.SetKind("Namespace")
		namespace.SetName(s.namespace)
		require.NoError(s, s.admin.Patch(s.Context(), namespace, client.RawPatch(types.MergePatchType, label)))
		s.eventually(func(c *assert.CollectT) { assert.NoError(c, s.alice.Create(s.Context(), s.csv("early"))) })
	})
}

// plan returns an InstallPlan that has not been created yet.
func (s *site) plan(name string) *operatorsv1alpha1.InstallPlan {
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: s.meta(name)}
	plan.Spec.Approval, plan.Spec.Approved, plan.Spec.ClusterServiceVersionNames = operatorsv1alpha1.ApprovalAutomatic, true, []string{}
	return plan
}

// Remit executes an InstallPlan regardless of its labels, so that only the label of authors who may use every account exempts it.
func TestRefusesAnInstallPlanWithoutAnOperatorGroup(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.grant(carol, rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"installplans"}, Verbs: []string{"create"}})
		s.eventually(func(c *assert.CollectT) {
			if err := s.carol.Create(s.Context(), s.plan("early"), client.DryRunAll); apierrors.IsForbidden(err) {
				assert.ErrorContains(c, err, csvPolicy)
			}
		})
		require.ErrorContains(s, s.carol.Create(s.Context(), s.plan("early")), noGroupForPlan)
		for _, label := range []string{names.LabelCopiedFrom, "remit.dev/lineage", "olm.managed", "remit.dev/clusterserviceversion-first"} {
			for _, value := range []string{"", "x", s.namespace} {
				plan := s.plan("early")
				plan.Labels = map[string]string{label: value}
				require.ErrorContains(s, s.carol.Create(s.Context(), plan), noGroupForPlan, label)
			}
		}
		plan := s.plan("early")
		plan.Labels = map[string]string{names.LabelCopiedFrom: "x", anyAccount: ""}
		s.deniedCSV(s.carol.Create(s.Context(), plan), "every ServiceAccount of namespace")
		require.NoError(s, s.admin.Create(s.Context(), s.plan("by-the-administrator")), "the administrator may use every account (docs/adr/0077)")
	})
}

func TestEveryOperatorGroupOfTheNamespaceIsChecked(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.made(installer)
		s.create(s.group("second", boss))
		s.writesCSVs(true, s.alice)
		s.eventually(func(c *assert.CollectT) {
			assert.ErrorContains(c, s.alice.Create(s.Context(), s.csv("x"), client.DryRunAll), "/boss, which OperatorGroup "+s.namespace+"/second")
		})
		require.NoError(s, s.admin.Create(s.Context(), s.csv("x")))
	})
}

// An OperatorGroup that names no account can later be changed to name any account in the namespace, so the author must
// be allowed to impersonate all of them. With a default account, such an OperatorGroup already uses the default
// account.
func TestACSVUnderAGroupWithoutAnAccount(t *testing.T) {
	for profile, says := range map[string]string{
		manifests.ProfileBounded: "names no ServiceAccount, and user",
		manifests.ProfileCompat:  "may not impersonate ServiceAccount remit/remit-default, which OperatorGroup",
	} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, profile)
			s.made("")
			s.writesCSVs(true, s.alice)
			s.deniedCSV(s.alice.Create(s.Context(), s.csv("x")), says)
			require.NoError(s, s.admin.Create(s.Context(), s.csv("x")))
			s.grant(carol, impersonate()) // all ServiceAccounts in the namespace
			s.eventually(func(c *assert.CollectT) {
				err := s.carol.Create(s.Context(), s.csv("y"), client.DryRunAll)
				if profile == manifests.ProfileBounded {
					assert.NoError(c, err)
				} else {
					assert.ErrorContains(c, err, says)
				}
			})
		})
	}
}
