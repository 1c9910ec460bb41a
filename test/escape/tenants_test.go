package escape

import (
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// tenants returns rows in which a tenant tries to change what belongs to another one, or to widen the roles of others, with
// permissions that it does have.
func tenants() []row {
	widgetsUser := p3()
	widgetsUser.cluster = append(widgetsUser.cluster, rule("acme.io", "widgets", "*"),
		named(rule("apiextensions.k8s.io", "customresourcedefinitions", "get"), "widgets.acme.io"))
	return []row{
		{number: "330", title: "a CSV that only lists another owner's API as owned, with an account that may use it", holds: widgetsUser, play: func(s *scene) {
			s.install(bundleOf(owning("widgets.acme.io", "v1", "Widget")))
			s.Succeeded(probeCSV)
			s.settle()
			for _, name := range []string{"admin", "edit", "view", "crdview"} {
				err := cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "widgets.acme.io-v1-" + name}, &rbacv1.ClusterRole{})
				require.True(s.T, apierrors.IsNotFound(err), "%v", err)
			}
		}},
		{number: "331", title: "a ClusterRole with the labels by which other ClusterRoles aggregate rules", holds: feeder(), play: func(s *scene) {
			keys := s.aggregators()
			s.allow(feeds)
			s.install(bundleOf(csv(), feedingBy(keys)))
			s.leftOut(s.installed(), "ClusterRole escape-feeds", keys...)
			s.feedsNothing(keys)
			s.Succeeded(probeCSV)
			s.allow(nil)
			s.uninstall()
			s.gone("escape-feeds")
		}},
		{number: "332", title: "a ClusterExtension with a ClusterRole by which other ClusterRoles aggregate rules", play: func(s *scene) {
			keys := s.aggregators()
			s.allow(feeds)
			x := s.extension("feeding", bundleOf(csv(), feedingBy(keys)))
			x.install(feeder())
			x.Installed("1.0.0")
			s.feedsNothing(keys)
			s.allow(nil)
			x.Remove()
			s.gone("escape-feeds")
		}},
		{number: "333", title: "a ClusterExtension whose configuration a user may only patch", play: func(s *scene) {
			x := s.extension("patched", bundleOf(csv()))
			x.install(p0())
			x.Installed("1.0.0")
			c := s.extensionAuthor()
			for _, inline := range hostileConfigs() {
				s.authorRefused(x.edit(c, func(ext *olmv1.ClusterExtension) {
					ext.Spec.Config.Inline.Raw = fmt.Appendf(nil, `{"watchNamespace":%q,"deploymentConfig":%s}`, s.Namespace, inline)
				}))
			}
			s.authorRefused(x.edit(c, func(ext *olmv1.ClusterExtension) { ext.Spec.Source.Catalog.Selector = nil }))
			require.NoError(s.T, x.edit(c, func(ext *olmv1.ClusterExtension) { ext.Labels = map[string]string{"team": "a"} }))
			s.settleExtensions()
			s.runsUnchanged()
		}},
		{number: "334", title: "a Subscription by a user who may only write Subscriptions", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			const user = "subscriber"
			s.bind(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}, user, profile{own: []rbacv1.PolicyRule{
				rule("operators.coreos.com", "subscriptions", "*"), rule("", "pods", "list"),
			}})
			c := s.knownAs(user)
			refused := func(err error) {
				require.True(s.T, apierrors.IsForbidden(err), "%v", err)
				require.ErrorContains(s.T, err, "may not impersonate ServiceAccount "+s.Namespace+"/"+accountName)
			}
			for _, config := range hostileConfigs() {
				refused(c.Patch(s.T.Context(), s.Subscription(s.T), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"config":%s}}`, config))))
			}
			refused(c.Patch(s.T.Context(), s.Subscription(s.T), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"source":"other"}}`))))
			refused(c.Create(s.T.Context(), &operatorsv1alpha1.Subscription{ObjectMeta: s.Meta("another"), Spec: &operatorsv1alpha1.SubscriptionSpec{
				CatalogSource: "catalog", CatalogSourceNamespace: s.Namespace, Package: "other",
			}}))
			s.settle()
			s.runsUnchanged()
		}},
		{number: "335", title: "a catalog in a ConfigMap that the account may not read", holds: withoutConfigMaps(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.catalogSays(`cannot get resource "configmaps"`, "kubectl create role catalog-content -n "+s.Namespace)
			s.settle()
			s.nothingWritten()
			require.Empty(s.T, s.requests(func(e audit.Event) bool {
				return cluster.ControllerIdentities().Is(e) && e.Object != nil && e.Object.Resource == "configmaps" && e.Object.Namespace == s.Namespace && e.Object.Name == "content"
			}))
			s.bind(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: accountName}, "reads",
				profile{own: []rbacv1.PolicyRule{rule("", "configmaps", "get", "list", "watch")}}) // the operator itself lists them
			s.Complete()
			s.Succeeded(probeCSV)
		}},
	}
}

// withoutConfigMaps returns profile P0 without permissions on ConfigMaps.
func withoutConfigMaps() profile {
	p := p0()
	for i := range p.own {
		p.own[i].Resources = slices.DeleteFunc(slices.Clone(p.own[i].Resources), func(r string) bool { return r == "configmaps" })
	}
	return p
}

// readsCatalogs returns a profile that only allows reading catalogs in ConfigMaps.
func readsCatalogs() profile { return profile{own: []rbacv1.PolicyRule{rule("", "configmaps", "get")}} }

// catalogReady waits until the content of the namespace's catalog has been read.
func (s *scene) catalogReady() {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, s.Get("catalog", cs))
		if assert.NotNil(c, cs.Status.GRPCConnectionState) {
			assert.Equal(c, "READY", cs.Status.GRPCConnectionState.LastObservedState, cs.Status.Message)
		}
	})
}

// hostileConfigs returns values for the config of a Subscription with which the Pods of an operator run other code.
func hostileConfigs() []string {
	return []string{
		`{"volumes":[{"name":"root","hostPath":{"path":"/"}}],"volumeMounts":[{"name":"root","mountPath":"/host"}]}`,
		`{"env":[{"name":"LD_PRELOAD","value":"/evil.so"}]}`,
		`{"volumes":[{"name":"evil","image":{"reference":"example.com/evil:v1"}}]}`,
	}
}

// runsUnchanged asserts that the operator's Deployment has none of hostileConfigs.
func (s *scene) runsUnchanged() {
	s.T.Helper()
	d := &appsv1.Deployment{}
	require.NoError(s.T, s.Get(forge.Deployment, d))
	require.Empty(s.T, d.Spec.Template.Spec.Volumes)
	require.False(s.T, slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "LD_PRELOAD" }))
}

// feeder returns profile P3 with the permission that feedingBy grants.
func feeder() profile {
	p := p3()
	p.cluster = append(p.cluster, rule("escape.example.com", "feeds", "get"))
	return p
}

// feeds matches the ClusterRole of feedingBy.
func feeds(c oracle.Change) bool {
	return c.Group == rbacv1.GroupName && c.Name == "escape-feeds" && c.How == "created"
}

// feedingBy returns a ClusterRole with these labels.
func feedingBy(keys []string) string {
	return strings.Replace(feeding, "{rbac.authorization.k8s.io/aggregate-to-admin: ", "{"+strings.Join(keys, `: "true", `)+": ", 1)
}

// aggregators creates a ClusterRole of an administrator and one like those of OperatorGroups, which aggregate the
// ClusterRoles with the labels that it returns.
func (s *scene) aggregators() []string {
	s.T.Helper()
	keys := []string{"acme.io/aggregate-to-" + s.Namespace, "olm.opgroup.permissions/aggregate-to-7b2c0f0ce5f4a1d2-admin"}
	for i, key := range keys {
		s.createOutside(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: aggregatorName(s, i)}, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{key: "true"}}}}})
	}
	return keys
}

func aggregatorName(s *scene, i int) string { return fmt.Sprintf("%s-aggregates-%d", s.Namespace, i) }

// feedsNothing asserts that the ClusterRole of the install has none of the labels, and that no ClusterRole of aggregators has
// its rules.
func (s *scene) feedsNothing(keys []string) {
	s.T.Helper()
	made := &rbacv1.ClusterRole{}
	require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "escape-feeds"}, made))
	require.Equal(s.T, "kept", made.Labels["team"])
	s.omits(made.Labels, keys...)
	for i := range keys {
		other := &rbacv1.ClusterRole{}
		require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: aggregatorName(s, i)}, other))
		require.False(s.T, slices.ContainsFunc(other.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "feeds") }))
	}
}

// gone waits until a ClusterRole does not exist.
func (s *scene) gone(name string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		err := cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: name}, &rbacv1.ClusterRole{})
		assert.True(c, apierrors.IsNotFound(err), "%v", err)
	})
}
