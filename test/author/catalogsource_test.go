package author

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

const noGroupForCatalog = "'remit-create-the-operatorgroup-before-the-catalogsource'"

// source returns a CatalogSource that has not been created yet.
func (s *site) source(name string) *operatorsv1alpha1.CatalogSource {
	return &operatorsv1alpha1.CatalogSource{ObjectMeta: s.meta(name), Spec: operatorsv1alpha1.CatalogSourceSpec{
		SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "content",
	}}
}

// writesCatalogs allows all users of the site to write CatalogSources.
func (s *site) writesCatalogs(group bool) {
	s.Helper()
	s.writes("catalogsources", func() client.Object { return s.source("probe") }, noGroupForCatalog, group)
}

// A catalog of the namespace decides what the account installs for the Subscriptions that name it, and as dependencies of all others.
func TestUsersWhoMayActAsTheAccountCanWriteCatalogs(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.made(installer)
		s.writesCatalogs(true)
		require.NoError(s, s.alice.Create(s.Context(), s.source("by-alice")))
		require.NoError(s, s.admin.Create(s.Context(), s.source("by-the-administrator")))
		require.NoError(s, s.cluster.As(s.T, scoped.Username(s.namespace, installer)).Create(s.Context(), s.source("by-the-account")))
		s.deniedCSV(s.carol.Create(s.Context(), s.source("by-carol")), "which OperatorGroup <ns>/group uses to install what this CatalogSource offers. "+
			"An administrator of the namespace can run: kubectl create role")
		for _, edit := range []string{
			`{"spec":{"configMap":"other"}}`, `{"spec":{"sourceType":"grpc","image":"example.com/evil:v1"}}`, `{"spec":{"address":"evil.<ns>.svc:50051"}}`,
			`{"spec":{"priority":1000}}`, `{"spec":{"secrets":["other"]}}`,
			`{"metadata":{"annotations":{"olm.catalogImageTemplate":"example.com/evil:v1"}}}`, `{"metadata":{"annotations":{"operatorframework.io/priorityclass":"system-node-critical"}}}`,
		} {
			patch := client.RawPatch(types.MergePatchType, []byte(edit))
			s.deniedCSV(s.carol.Patch(s.Context(), s.source("by-alice"), patch), "<ns>/installer")
			require.NoError(s, s.alice.Patch(s.Context(), s.source("by-alice"), patch), edit)
		}
		for _, edit := range []string{`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"}}}`, `{"metadata":{"finalizers":["example.com/keep"]}}`, `{"metadata":{"finalizers":null}}`} {
			require.NoError(s, s.carol.Patch(s.Context(), s.source("by-alice"), client.RawPatch(types.MergePatchType, []byte(edit))), edit)
		}
		status := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"priority":7},"status":{"message":"x"}}`))
		source := s.source("by-alice")
		require.NoError(s, s.carol.Status().Patch(s.Context(), source, status))
		require.Equal(s, 1000, source.Spec.Priority)
		require.NoError(s, s.carol.Delete(s.Context(), source))
	})
}

// Whoever creates the OperatorGroup later does not look for a catalog that is already there.
func TestRefusesACatalogWithoutAnOperatorGroup(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.writesCatalogs(false)
		for _, c := range []client.Client{s.alice, s.carol} {
			err := c.Create(s.Context(), s.source("early"))
			require.ErrorContains(s, err, noGroupForCatalog)
			require.ErrorContains(s, err, "no params found")
			labeled := s.source("labeled")
			labeled.Labels = map[string]string{anyAccount: ""}
			require.ErrorContains(s, c.Create(s.Context(), labeled), "every ServiceAccount of namespace "+s.namespace)
		}
		source := s.source("by-the-administrator")
		require.NoError(s, s.admin.Create(s.Context(), source), "the administrator may use every account (docs/adr/0077)")
		require.Contains(s, source.Labels, anyAccount)
		s.deniedCSV(s.carol.Patch(s.Context(), source, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"priority":1000}}`))), "as the label remit.dev/any-account")
	})
}

// While a namespace has no OperatorGroup, the account that remit-catalog has recorded decides.
func TestTheLastAccountDecidesWhoChangesACatalogWithoutAGroup(t *testing.T) {
	everyProfile(t, func(s *site) {
		og := s.made(installer)
		s.writesCatalogs(true)
		source := s.source("catalog")
		require.NoError(s, s.alice.Create(s.Context(), source))
		record := func(c client.Client) error {
			after := source.DeepCopy()
			after.Status.Conditions = []metav1.Condition{{Type: names.ConditionAuthorUnchecked, Status: metav1.ConditionFalse, Reason: "AccountKnown", LastTransitionTime: source.CreationTimestamp,
				Message: "ServiceAccount " + s.namespace + "/" + installer + " installs what this CatalogSource offers: whoever changes the spec must be allowed to impersonate it"}}
			return c.Status().Patch(s.Context(), after, client.MergeFrom(source))
		}
		s.deniedCSV(record(s.carol), "only remit-catalog may set the condition AuthorUnchecked")
		require.NoError(s, record(s.cluster.As(s.T, scoped.Username("remit", "remit-catalog"))))
		require.NoError(s, s.admin.Delete(s.Context(), og))
		s.eventually(func(c *assert.CollectT) { // the policies no longer know the OperatorGroup
			assert.ErrorContains(c, s.alice.Create(s.Context(), s.source("probe"), client.DryRunAll), noGroupForCatalog)
		})
		for _, edit := range []string{`{"spec":{"configMap":"other"}}`, `{"metadata":{"annotations":{"olm.catalogImageTemplate":"example.com/evil:v1"}}}`} {
			patch := client.RawPatch(types.MergePatchType, []byte(edit))
			s.deniedCSV(s.carol.Patch(s.Context(), s.source("catalog"), patch), "may not impersonate ServiceAccount <ns>/installer, which the annotation")
			require.NoError(s, s.alice.Patch(s.Context(), s.source("catalog"), patch))
		}
		s.deniedCSV(s.carol.Status().Patch(s.Context(), s.source("catalog"), client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":null}}`))), "only remit-catalog")
		require.NoError(s, s.carol.Patch(s.Context(), s.source("catalog"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/keep"]}}`))))
		require.NoError(s, s.carol.Patch(s.Context(), s.source("catalog"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	})
}

// In the namespace of the global catalogs, whose authors act for the whole cluster, there is no OperatorGroup.
func TestGlobalCatalogsNeedNoOperatorGroup(t *testing.T) {
	everyProfile(t, func(s *site) {
		rule := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"catalogsources"}, Verbs: []string{"create"}}
		defer s.grantIn(names.DefaultCatalogNamespace, carol, rule)()
		global := s.source("global")
		global.Namespace = names.DefaultCatalogNamespace
		s.eventually(func(c *assert.CollectT) {
			assert.NoError(c, s.carol.Create(s.Context(), global, client.DryRunAll))
		})
	})
}
