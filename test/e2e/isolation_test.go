package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// A namespace has three catalogs: one whose registry does not respond, one whose registry returns invalid content, and
// a healthy one. Installs from the healthy one succeed, and the other Subscriptions report what is wrong with their
// catalogs.
func TestAnUnhealthyCatalogOnlyFailsInstallsThatNeedIt(t *testing.T) {
	tn := cluster.Tenant(t)
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	refs := map[string]string{}
	for _, name := range []string{"dead", "good", "lying"} {
		content, err := env.SampleFBC()
		require.NoError(t, err)
		made, err := registry.Catalog(fstest.MapFS{"catalog.json": {Data: []byte(content)}})
		require.NoError(t, err)
		ref, _, err := images.Push(tn.Namespace+"/"+name+":v1", made)
		require.NoError(t, err)
		refs[name] = ref
	}
	images.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "/"+tn.Namespace+"/dead/"):
			<-r.Context().Done()
			return true
		case strings.Contains(r.URL.Path, "/"+tn.Namespace+"/lying/blobs/"):
			_, _ = w.Write([]byte("something else"))
			return true
		}
		return false
	})
	t.Cleanup(func() { images.Answer(nil) })
	packages := map[string]string{"dead": "other", "lying": "another", "good": bundle.Package}
	for name, ref := range refs {
		tn.Catalog(name, ref)
		tn.Create(&operatorsv1alpha1.Subscription{ObjectMeta: tn.Meta(packages[name]), Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: name, CatalogSourceNamespace: tn.Namespace, Package: packages[name], Channel: bundle.Channel}})
	}
	tn.Complete()
	tn.Eventually(func(c *assert.CollectT) {
		lying := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("lying", lying))
		assert.Contains(c, lying.Status.Message, "error verifying")
		for _, name := range []string{"dead", "lying"} {
			sub := &operatorsv1alpha1.Subscription{}
			assert.NoError(c, tn.Get(packages[name], sub))
			got := sub.Status.GetCondition(resolutionFailed)
			assert.Contains(c, got.Message, name)
			assert.Contains(c, got.Message, "its content is not available")
		}
		sub := &operatorsv1alpha1.Subscription{}
		assert.NoError(c, tn.Get(bundle.Package, sub))
		assert.Equal(c, bundle.CSV, sub.Status.InstalledCSV)
		assert.Empty(c, sub.Status.GetCondition(resolutionFailed).Message, "the problems of other catalogs must not be reported")
	})
}

func TestReportsABundleImageThatDoesNotExist(t *testing.T) {
	t.Parallel()
	tn := following(t)
	content, err := env.SampleFBCByImage(images.Host + "/nowhere/" + tn.Namespace + ":v1")
	require.NoError(t, err)
	tn.Create(&corev1.ConfigMap{ObjectMeta: tn.Meta("content"), Data: map[string]string{"catalog.json": content}})
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta("catalog"),
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "content"}})
	subscribe(tn)
	tn.SubscriptionSays(operatorsv1alpha1.SubscriptionBundleUnpackFailed, "BundleUnpackFailed", "NAME_UNKNOWN")
	tn.Eventually(func(c *assert.CollectT) {
		list := &eventsv1.EventList{}
		assert.NoError(c, cluster.Client.List(t.Context(), list, client.InNamespace(tn.Namespace)))
		assert.True(c, slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Kind == operatorsv1alpha1.SubscriptionKind && e.Reason == "BundleUnpackFailed" && strings.Contains(e.Note, "NAME_UNKNOWN")
		}), "%v", list.Items)
	})
	tn.NothingWritten()
}

func TestWaitsForABundleImage(t *testing.T) {
	tn := cluster.Tenant(t)
	grantSample(tn, tn.Namespace)
	tn.GrantCatalog("content")
	tn.Group(env.AccountName, tn.Namespace)
	packed, err := registry.Bundle(bundle.FS())
	require.NoError(t, err)
	ref, _, err := images.Push("bundles/"+tn.Namespace+":v1", packed)
	require.NoError(t, err)
	content, err := env.SampleFBCByImage(ref)
	require.NoError(t, err)
	tn.Create(&corev1.ConfigMap{ObjectMeta: tn.Meta("content"), Data: map[string]string{"catalog.json": content}})
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta("catalog"),
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "content"}})
	come := make(chan struct{})
	images.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/"+tn.Namespace+"/") {
			select {
			case <-come:
			case <-r.Context().Done():
			}
		}
		return false
	})
	t.Cleanup(func() { images.Answer(nil) })
	subscribe(tn)
	tn.SubscriptionSays(operatorsv1alpha1.SubscriptionBundleUnpacking, "UnpackingInProgress", ref)
	require.Empty(t, tn.Subscription(t).Status.GetCondition(resolutionFailed).Message, "no problem must be reported")
	close(come)
	tn.Complete()
	tn.Succeeded(bundle.CSV)
	require.Empty(t, tn.Subscription(t).Status.GetCondition(operatorsv1alpha1.SubscriptionBundleUnpacking).Message)
}
