package e2e

import (
	"strings"
	"testing"
	"testing/fstest"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

func TestEveryKindOfCatalogInstallsTheSample(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]func(tn *env.Tenant) operatorsv1alpha1.CatalogSourceSpec{
		"a directory": func(*env.Tenant) operatorsv1alpha1.CatalogSourceSpec {
			return operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: image(catalogSample)}
		},
		"an image whose bundles are images": func(tn *env.Tenant) operatorsv1alpha1.CatalogSourceSpec {
			packed, err := registry.Bundle(bundle.FS())
			require.NoError(tn.T, err)
			ref, digest, err := images.Push("bundles/"+tn.Namespace+":v1", packed)
			require.NoError(tn.T, err)
			content, err := env.SampleFBCByImage(strings.TrimSuffix(ref, ":v1") + "@" + digest)
			require.NoError(tn.T, err)
			made, err := registry.Catalog(fstest.MapFS{"sample/catalog.json": {Data: []byte(content)}})
			require.NoError(tn.T, err)
			ref, _, err = images.Push(tn.Namespace+":v1", made)
			require.NoError(tn.T, err)
			return operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: ref}
		},
		"an image": func(tn *env.Tenant) operatorsv1alpha1.CatalogSourceSpec {
			content, err := env.SampleFBC()
			require.NoError(tn.T, err)
			made, err := registry.Catalog(fstest.MapFS{"sample/catalog.json": {Data: []byte(content)}})
			require.NoError(tn.T, err)
			ref, _, err := images.Push(tn.Namespace+":v1", made)
			require.NoError(tn.T, err)
			return operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: ref}
		},
		"a ConfigMap": func(tn *env.Tenant) operatorsv1alpha1.CatalogSourceSpec {
			content, err := env.SampleFBC()
			require.NoError(tn.T, err)
			tn.Create(&corev1.ConfigMap{ObjectMeta: tn.Meta("content"), Data: map[string]string{"catalog.json": content}})
			tn.GrantCatalog("content")
			return operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "content"}
		},
		"a registry at an address": func(tn *env.Tenant) operatorsv1alpha1.CatalogSourceSpec {
			return operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: tn.Registry("registry")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tn := cluster.Tenant(t)
			grantSample(tn, tn.Namespace)
			tn.Group(env.AccountName, tn.Namespace)
			tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta("catalog"), Spec: spec(tn)})
			subscribe(tn)

			tn.Complete()
			tn.Succeeded(bundle.CSV)
			isReady(t, tn)
		})
	}
}

func isReady(t *testing.T, tn *env.Tenant) {
	t.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", cs))
		if assert.NotNil(c, cs.Status.GRPCConnectionState) {
			assert.Equal(c, "READY", cs.Status.GRPCConnectionState.LastObservedState)
		}
		health := tn.Subscription(c).Status.CatalogHealth
		if assert.Len(c, health, 1) {
			assert.True(c, health[0].Healthy)
		}
	})
}
