// Package crds installs Remit's APIs in a test's control plane.
package crds

import (
	"context"
	"slices"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/manifests"
)

// Install applies the CustomResourceDefinitions of ClusterExtensions and ClusterCatalogs, waits until they are served, and
// returns a client for them. It can be called by several tests that share a control plane.
func Install(t testing.TB, config *rest.Config) client.WithWatch {
	t.Helper()
	objs, err := manifests.ExtensionCRDs()
	require.NoError(t, err)
	return install(t, config, objs)
}

// InstallCSVs is like Install, for ClusterServiceVersions.
func InstallCSVs(t testing.TB, config *rest.Config) client.WithWatch {
	t.Helper()
	objs, err := manifests.Render(manifests.ProfileBounded)
	require.NoError(t, err)
	objs = slices.DeleteFunc(objs, func(o *unstructured.Unstructured) bool {
		return o.GetName() != "clusterserviceversions.operators.coreos.com"
	})
	require.Len(t, objs, 1)
	return install(t, config, objs)
}

func install(t testing.TB, config *rest.Config, objs []*unstructured.Unstructured) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, olmv1.AddToScheme, operatorsv1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, manifests.Apply(ctx, c, objs))
	awaitServed(t, config, objs)
	return c
}

// awaitServed waits until the kinds of the CustomResourceDefinitions can be discovered and listed, which may take longer than
// until they are established.
func awaitServed(t testing.TB, config *rest.Config, objs []*unstructured.Unstructured) {
	t.Helper()
	for _, obj := range objs {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, crd))
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.ListKind})
		require.EventuallyWithT(t, func(ct *assert.CollectT) {
			c, err := client.New(config, client.Options{}) // a new client for each attempt, because a client remembers which kinds it did not find
			require.NoError(ct, err)
			assert.NoError(ct, c.List(t.Context(), list, client.Limit(1)))
		}, time.Minute, 50*time.Millisecond)
	}
}
