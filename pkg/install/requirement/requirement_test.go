package requirement

import (
	"context"
	"fmt"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/test/env/controlplane"
)

func TestRequirementOfAVersion(t *testing.T) {
	status, message := compareVersions("1.20.0", "v1.36.3")
	require.Equal(t, Present, status)
	require.Equal(t, "CSV minKubeVersion (1.20.0) less than server version (v1.36.3)", message)
	status, message = compareVersions("9.0.0", "v1.36.3")
	require.Equal(t, NotPresent, status)
	require.Equal(t, "CSV version requirement not met: minKubeVersion (9.0.0) > server version (v1.36.3)", message)
	status, _ = compareVersions("latest", "v1.36.3")
	require.Equal(t, NotPresent, status)
}

func TestRequirementsAreMetIfAllArePresent(t *testing.T) {
	of := func(all ...operatorsv1alpha1.StatusReason) []operatorsv1alpha1.RequirementStatus {
		var out []operatorsv1alpha1.RequirementStatus
		for _, s := range all {
			out = append(out, operatorsv1alpha1.RequirementStatus{Status: s})
		}
		return out
	}
	require.True(t, Met(nil))
	require.True(t, Met(of(Present, Present)))
	for _, s := range []operatorsv1alpha1.StatusReason{NotPresent, NotSatisfied, NotAvailable, ""} {
		require.False(t, Met(of(Present, s)), s)
	}
}

// counting is a RESTMapper that counts the calls to RESTMapping and KindFor.
type counting struct {
	meta.RESTMapper
	asked int
}

func (c *counting) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	c.asked++
	return c.RESTMapper.KindFor(resource)
}

func (c *counting) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	c.asked++
	return c.RESTMapper.RESTMapping(kind, versions...)
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	require.NoError(t, apiregistrationv1.AddToScheme(scheme))
	return scheme
}

func TestInventedKindsCostFewRequests(t *testing.T) {
	api := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.apps", UID: "a"}}
	c := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(api).Build()
	mapper := &counting{RESTMapper: meta.NewDefaultRESTMapper(nil)}
	w := World{Reader: c, Mapper: mapper, Unserved: kinds.NewUnserved(clock.RealClock{})}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	for i := range 1000 {
		csv.Spec.NativeAPIs = append(csv.Spec.NativeAPIs,
			metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: fmt.Sprint("Invented", i)})
		csv.Spec.APIServiceDefinitions.Required = append(csv.Spec.APIServiceDefinitions.Required,
			operatorsv1alpha1.APIServiceDescription{Group: fmt.Sprint("invented", i), Version: "v1", Kind: "Thing"})
	}
	check := func() int {
		before := mapper.asked
		all, err := w.Of(t.Context(), csv)
		require.NoError(t, err)
		require.Len(t, all, 2000)
		for _, status := range all {
			require.Equal(t, NotPresent, status.Status)
		}
		require.Equal(t, "Native API does not exist", all[0].Message)
		require.Equal(t, "Not checked until fewer than 20 other kinds are missing", all[1999].Message)
		return mapper.asked - before
	}
	require.Equal(t, kinds.MaxUnserved, check())
	require.Zero(t, check(), "another reconcile sends no requests")

	api.Labels = map[string]string{"changed": "yes"}
	require.NoError(t, c.Update(t.Context(), api))
	require.Equal(t, kinds.MaxUnserved, check(), "the APIService has changed")

	csv.Spec.NativeAPIs = nil
	mapper.asked = 0
	all, err := w.Of(t.Context(), csv)
	require.NoError(t, err)
	require.Equal(t, "APIService does not serve the kind", all[0].Message)
	require.Zero(t, mapper.asked, "there is no APIService for the group")
}

// The rules of webhooks can name any resources, and every reconcile renders them.
func TestInventedResourcesCostFewRequests(t *testing.T) {
	api := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.apps", UID: "a"}, Spec: apiregistrationv1.APIServiceSpec{Group: "apps"}}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"}}
	crd.Spec.Group, crd.Spec.Names.Plural, crd.Spec.Scope = "example.com", "things", apiextensionsv1.ClusterScoped
	c := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(api, crd).Build()
	mapper := &counting{RESTMapper: meta.NewDefaultRESTMapper(nil)}
	w := World{Reader: c, Mapper: mapper, Unserved: kinds.NewUnserved(clock.RealClock{})}
	check := func() int {
		before, scopes := mapper.asked, w.Lookups().Scopes(t.Context())
		require.Equal(t, webhook.Cluster, scopes("example.com", "things"))
		for i := range 1000 {
			require.Equal(t, webhook.Either, scopes("apps", fmt.Sprint("invented", i)))
			require.Equal(t, webhook.Either, scopes(fmt.Sprint("invented", i), "things"))
		}
		return mapper.asked - before
	}
	require.Equal(t, kinds.MaxUnserved, check())
	require.Zero(t, check(), "another reconcile sends no requests")
	api.Labels = map[string]string{"changed": "yes"}
	require.NoError(t, c.Update(t.Context(), api))
	require.Equal(t, kinds.MaxUnserved, check(), "the APIService has changed")

	mapper.asked = 0
	for range 2 {
		mapping, err := w.Lookups().Mapping(t.Context(), schema.GroupKind{Group: "apps", Kind: "Invented"})
		require.NoError(t, err)
		require.Nil(t, mapping)
		mapping, err = w.Lookups().Mapping(t.Context(), schema.GroupKind{Group: "invented", Kind: "Thing"})
		require.NoError(t, err)
		require.Nil(t, mapping)
	}
	require.Equal(t, 1, mapper.asked)
}

func TestServedKinds(t *testing.T) {
	config := controlplane.Shared(t).Config()
	c, err := client.New(config, client.Options{Scheme: newScheme(t)})
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.served.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "served.example.com", Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Thing", Plural: "things"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
		}}
	w := World{Reader: c, Mapper: c.RESTMapper(), Unserved: kinds.NewUnserved(clock.RealClock{})}
	both := func(group, version, kind string) []operatorsv1alpha1.StatusReason {
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		csv.Spec.NativeAPIs = []metav1.GroupVersionKind{{Group: group, Version: version, Kind: kind}}
		csv.Spec.APIServiceDefinitions.Required = []operatorsv1alpha1.APIServiceDescription{{Group: group, Version: version, Kind: kind}}
		all, err := w.Of(t.Context(), csv)
		require.NoError(t, err)
		return []operatorsv1alpha1.StatusReason{all[0].Status, all[1].Status}
	}
	served := []operatorsv1alpha1.StatusReason{operatorsv1alpha1.RequirementStatusReasonPresent, operatorsv1alpha1.RequirementStatusReasonPresent}
	unserved := []operatorsv1alpha1.StatusReason{NotPresent, NotPresent}
	require.Equal(t, served, both("", "v1", "Pod"))
	require.Equal(t, served, both("apps", "v1", "Deployment"))
	require.Equal(t, unserved, both("apps", "v1", "Invented"))
	require.Equal(t, unserved, both("apps", "v9", "Deployment"))
	require.Equal(t, unserved, both("served.example.com", "v1", "Thing"))

	require.NoError(t, c.Create(t.Context(), crd))
	t.Cleanup(func() { _ = c.Delete(context.Background(), crd) })
	// the API server can start to serve the kind between the two lookups of one check
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		assert.Equal(collect, served, both("served.example.com", "v1", "Thing"))
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, unserved, both("served.example.com", "v2", "Thing"))

	lookups := w.Lookups()
	for resource, want := range map[schema.GroupResource]webhook.Scope{
		{Group: "served.example.com", Resource: "things"}: webhook.Namespaced, {Group: "apps", Resource: "deployments"}: webhook.Namespaced,
		{Group: "storage.k8s.io", Resource: "storageclasses"}: webhook.Cluster, {Group: "apps", Resource: "things"}: webhook.Either,
		{Resource: "pods"}: webhook.Namespaced,
	} {
		require.Equal(t, want, lookups.Scopes(t.Context())(resource.Group, resource.Resource), resource)
	}
	mapping, err := lookups.Mapping(t.Context(), schema.GroupKind{Group: "apps", Kind: "Deployment"})
	require.NoError(t, err)
	require.Equal(t, "deployments", mapping.Resource.Resource)
}
