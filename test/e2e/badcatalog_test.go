package e2e

import (
	"os"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env"
)

func TestReportsWhatTheCatalogDoesNotContain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit         func(*operatorsv1alpha1.SubscriptionSpec)
		reason, text string
	}{
		"an unknown package": {func(s *operatorsv1alpha1.SubscriptionSpec) { s.Package = "nothing" },
			unsatisfiable, "no operators found in package nothing"},
		"an unknown channel": {func(s *operatorsv1alpha1.SubscriptionSpec) { s.Channel = "beta" },
			unsatisfiable, "no operators found in channel beta of package sample-operator"},
		"an unknown startingCSV": {func(s *operatorsv1alpha1.SubscriptionSpec) { s.StartingCSV = "sample-operator.v9" },
			unsatisfiable, "no operators found with name sample-operator.v9 in channel stable"},
		"an unknown catalog": {func(s *operatorsv1alpha1.SubscriptionSpec) { s.CatalogSource = "elsewhere" },
			prevented, "elsewhere: its content is not available"},
		"a catalog of another tenant": {func(s *operatorsv1alpha1.SubscriptionSpec) { s.CatalogSourceNamespace = "default" },
			unsatisfiable, "is not visible from namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tn := cluster.Tenant(t)
			grantSample(tn, tn.Namespace)
			tn.Group(env.AccountName, tn.Namespace)
			tn.Catalog("catalog", image(catalogSample))
			subscribe(tn, c.edit)

			tn.SubscriptionSays(resolutionFailed, c.reason, c.text)
			tn.NothingWritten()
		})
	}
}

func TestTheAnnotationExcludesGlobalCatalogs(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	og := &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group"), Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: tn.GroupAccount(), TargetNamespaces: []string{tn.Namespace}}}
	og.Annotations = map[string]string{"olm.operatorframework.io/exclude-global-namespace-resolution": "true"}
	tn.Create(og)
	subscribe(tn, func(s *operatorsv1alpha1.SubscriptionSpec) { s.CatalogSourceNamespace = cluster.Catalogs })
	tn.SubscriptionSays(resolutionFailed, unsatisfiable, "because its OperatorGroup excludes global catalogs")
}

func TestReportsACatalogThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		image, text string
	}{
		"a missing directory":          {image(catalogAbsent), "no such file or directory"},
		"a malformed catalog":          {image(catalogMalformed), "catalog.yaml"},
		"an image that does not exist": {images.Host + "/nowhere:v1", "NAME_UNKNOWN"},
		"an image without a registry":  {"nowhere", "must have the form REGISTRY/NAME:TAG"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tn := cluster.Tenant(t)
			tn.Catalog("catalog", c.image)
			subscribe(tn)
			grantSample(tn, tn.Namespace)
			tn.Group(env.AccountName, tn.Namespace)

			tn.Eventually(func(ct *assert.CollectT) {
				cs := &operatorsv1alpha1.CatalogSource{}
				assert.NoError(ct, tn.Get("catalog", cs))
				assert.Equal(ct, operatorsv1alpha1.CatalogSourceRegistryServerError, cs.Status.Reason)
				assert.Contains(ct, cs.Status.Message, c.text)
			})
			tn.SubscriptionSays(operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy, "UnhealthyCatalogSourceFound", "unhealthy")
			tn.SubscriptionSays(resolutionFailed, prevented, "its content is not available")
			if os.Getenv("PROFILE") != "compat" || name != "an image that does not exist" { // there, its Pod runs by tag (ADR 0074)
				tn.NothingWritten()
			}
		})
	}
}

// The catalog's other packages can still be installed and upgraded.
func TestAnInvalidPackageDoesNotAffectTheRestOfItsCatalog(t *testing.T) {
	t.Parallel()
	tn := following(t)
	tn.Publish("catalog", releasesV1, "b.v1.0.0 stable")
	tn.Subscribe("catalog", "a", "stable")
	tn.Installed("a.v1.0.0")

	cm := &corev1.ConfigMap{ObjectMeta: tn.Meta("catalog"), Data: map[string]string{
		"catalog.json": env.ReleasesWith(nil, releasesV1, releasesV2) + `{"schema":"olm.package","name":"b"}`,
	}}
	require.NoError(t, cluster.Client.Patch(t.Context(), cm, client.Merge))
	tn.Installed("a.v2.0.0")
	excluded := func(c *assert.CollectT) *metav1.Condition {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", cs))
		return meta.FindStatusCondition(cs.Status.Conditions, "PackagesExcluded")
	}
	tn.Eventually(func(c *assert.CollectT) {
		if got := excluded(c); assert.NotNil(c, got) {
			assert.Equal(c, "InvalidPackages", got.Reason)
			assert.Contains(c, got.Message, `package "b" has no default channel`)
		}
	})
	tn.Publish("catalog", releasesV1, releasesV2, "b.v1.0.0 stable")
	tn.Eventually(func(c *assert.CollectT) { assert.Nil(c, excluded(c)) })
}
