package author

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	policies "github.com/remit-olm/remit/manifests/policy"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// ownAPIService is the APIService that forwards requests to package-server.
const ownAPIService = "v1.packages.operators.coreos.com"

// apiService returns an APIService with a label, an annotation and a finalizer.
func apiService(name, group string) *unstructured.Unstructured {
	a := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": map[string]any{
		"group": group, "version": "v1", "groupPriorityMinimum": int64(2000), "versionPriority": int64(15), "insecureSkipTLSVerify": false,
		"service": map[string]any{"namespace": names.DefaultNamespace, "name": names.ServiceAccountPackageServer, "port": int64(443)},
	}}}
	a.SetName(name)
	a.SetLabels(map[string]string{"a": "b"})
	a.SetAnnotations(map[string]string{"a": "b"})
	a.SetFinalizers([]string{"a.b/c"})
	return a
}

// newPackagesSite installs the policy that limits package-server, its APIService and another one, and waits until the API server
// enforces the policy.
func newPackagesSite(t *testing.T) (s *extensionSite, self client.Client) {
	t.Helper()
	s = newExtensionSite(t, manifests.ProfileBounded)
	self = s.program(names.ServiceAccountPackageServer)
	all, err := policies.Of(policies.Installation{Namespace: names.DefaultNamespace, Packages: true})
	require.NoError(t, err)
	for _, p := range all.Policies {
		require.NoError(t, client.IgnoreAlreadyExists(s.admin.Create(t.Context(), p)))
	}
	for _, b := range all.Bindings {
		require.NoError(t, client.IgnoreAlreadyExists(s.admin.Create(t.Context(), b)))
	}
	other := apiService("v1."+s.name+".example.com", s.name+".example.com")
	for _, a := range []*unstructured.Unstructured{apiService(ownAPIService, "packages.operators.coreos.com"), other} {
		require.NoError(t, client.IgnoreAlreadyExists(s.admin.Create(t.Context(), a)))
		t.Cleanup(func() { _ = s.admin.Delete(t.Context(), a) })
		t.Cleanup(func() { _ = s.admin.Patch(t.Context(), a, merge(`{"metadata":{"finalizers":null}}`)) })
	}
	(&site{T: t}).eventually(func(c *assert.CollectT) {
		assert.ErrorContains(c, self.Patch(t.Context(), other.DeepCopy(), merge(`{"spec":{"caBundle":"eA=="}}`)), "may only update its own APIService")
	})
	return s, self
}

// The other APIService has the same content, so that only its name is refused.
func TestThePolicyOfPackageServerAllowsOnlyTheCA(t *testing.T) {
	s, self := newPackagesSite(t)
	const notOwn, denied = "may only update its own APIService", "may change only spec.caBundle"
	own, other := apiService(ownAPIService, ""), apiService("v1."+s.name+".example.com", s.name+".example.com")
	ca := merge(`{"spec":{"caBundle":"eA=="}}`)
	require.NoError(t, self.Patch(t.Context(), own, ca))
	s.denied(self.Patch(t.Context(), other, ca), notOwn, "another APIService")
	created := apiService("v1.new.example.com", "new.example.com")
	s.denied(self.Create(t.Context(), created), notOwn, "a new APIService")
	s.denied(self.Status().Patch(t.Context(), other, merge(`{"status":{"conditions":[{"type":"Available","status":"True","reason":"x","message":"x","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)), notOwn, "the status of another APIService")
	for what, text := range map[string]string{
		"the name of the Service":      `{"spec":{"service":{"name":"x"}}}`,
		"the namespace of the Service": `{"spec":{"service":{"namespace":"x"}}}`,
		"the port of the Service":      `{"spec":{"service":{"port":444}}}`,
		"no verification":              `{"spec":{"caBundle":null,"insecureSkipTLSVerify":true}}`,
		"the group's priority":         `{"spec":{"groupPriorityMinimum":2001}}`,
		"the version's priority":       `{"spec":{"versionPriority":16}}`,
		"a changed label":              `{"metadata":{"labels":{"a":"c"}}}`,
		"no label":                     `{"metadata":{"labels":null}}`,
		"another annotation":           `{"metadata":{"annotations":{"c":"d"}}}`,
		"no annotation":                `{"metadata":{"annotations":null}}`,
		"an owner":                     `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"x"}]}}`,
		"no finalizer":                 `{"metadata":{"finalizers":null}}`,
	} {
		s.denied(self.Patch(t.Context(), apiService(ownAPIService, ""), merge(text)), denied, what)
	}
	status := `{"status":{"conditions":[{"type":"Available","status":"False","reason":"x","message":"x","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	s.denied(self.Status().Patch(t.Context(), apiService(ownAPIService, ""), merge(status)), denied, "the status")
}
