package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/registry"
)

// pushRegistry pushes an image without a file-based catalog. Its Pods become ready, but serve nothing.
func pushRegistry(t *testing.T, s *registry.Server, named, text string) (ref, pinned string) {
	t.Helper()
	layer, err := registry.Layer(fstest.MapFS{"index.db": {Data: []byte(text)}}, "database")
	require.NoError(t, err)
	made, err := registry.Image(nil, layer)
	require.NoError(t, err)
	ref, digest, err := s.Push(named+":v1", made)
	require.NoError(t, err)
	return ref, s.Host + "/" + named + "@" + digest
}

// onePod waits until exactly one Pod exists and serves the image.
func (c *cluster) onePod(t *testing.T, name, image string) *corev1.Pod {
	t.Helper()
	var out *corev1.Pod
	require.EventuallyWithT(t, func(col *assert.CollectT) {
		list := &corev1.PodList{}
		require.NoError(col, c.List(t.Context(), list, client.InNamespace(c.namespace), client.HasLabels{names.LabelCatalogSource}))
		pods := list.Items[:0]
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil {
				pods = append(pods, p)
			}
		}
		require.Len(col, pods, 1)
		out = &pods[0]
		require.Equal(col, name, out.Labels[names.LabelCatalogSource])
		require.Equal(col, image, out.Spec.Containers[0].Image)
		require.True(col, server.IsReady(out))
	}, time.Minute, 50*time.Millisecond)
	return out
}

func (c *cluster) edit(t *testing.T, name, patch string) {
	t.Helper()
	u := newObject()
	u.SetNamespace(c.namespace)
	u.SetName(name)
	require.NoError(t, c.Patch(t.Context(), u, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func TestAppliesPodSpecChangesWithAnUpdatePod(t *testing.T) {
	images := registry.New(t)
	ref, pinned := pushRegistry(t, images, "catalog", "1")
	c := givenCluster(t, nil)
	c.create(t, "cat", map[string]any{"sourceType": "grpc", "image": ref})
	first := c.onePod(t, "cat", pinned)
	c.eventually(t, "cat", "RegistryServerError", "TRANSIENT_FAILURE", 0)

	c.edit(t, "cat", `{"spec":{"secrets":["pull"],"priority":7,"displayName":"x"}}`)
	var second *corev1.Pod
	require.EventuallyWithT(t, func(col *assert.CollectT) {
		second = c.onePod(t, "cat", pinned)
		require.NotEqual(col, first.UID, second.UID)
		require.Equal(col, []corev1.LocalObjectReference{{Name: "pull"}}, second.Spec.ImagePullSecrets)
	}, time.Minute, 100*time.Millisecond)

	// Changes by other clients are kept.
	second.Spec.Tolerations = append(second.Spec.Tolerations, corev1.Toleration{Key: "added", Operator: "Exists"})
	second.Annotations["added"] = "yes"
	require.NoError(t, c.Update(t.Context(), second))
	c.edit(t, "cat", `{"spec":{"priority":8},"metadata":{"annotations":{"note":"x"}}}`)

	ns := &corev1.Namespace{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: c.namespace}, ns))
	service := &corev1.Service{}
	require.NoError(t, c.Get(t.Context(), c.key("cat"), service))
	require.NoError(t, c.Delete(t.Context(), service))
	require.EventuallyWithT(t, func(col *assert.CollectT) { require.NoError(col, c.Get(t.Context(), c.key("cat"), service)) }, time.Minute, 50*time.Millisecond)
	require.Equal(t, second.UID, c.onePod(t, "cat", pinned).UID)

	ns.Labels[labelEnforce] = restricted
	require.NoError(t, c.Update(t.Context(), ns))
	require.EventuallyWithT(t, func(col *assert.CollectT) {
		require.NotNil(col, c.onePod(t, "cat", pinned).Spec.SecurityContext.RunAsNonRoot)
	}, time.Minute, 100*time.Millisecond)

	c.edit(t, "cat", `{"spec":{"sourceType":"internal","configMap":"none","image":null}}`)
	require.EventuallyWithT(t, func(col *assert.CollectT) {
		for _, obj := range []client.Object{&corev1.ServiceAccount{}, &corev1.Service{}} {
			require.True(col, apierrors.IsNotFound(c.Get(t.Context(), c.key("cat"), obj)))
		}
		list := &corev1.PodList{}
		require.NoError(col, c.List(t.Context(), list, client.InNamespace(c.namespace)))
		require.Empty(col, list.Items)
	}, 2*time.Minute, 100*time.Millisecond)
}

// If admission removes a Pod's labels, the Pod cannot be found again.
func TestDeletesAPodThatLosesItsLabels(t *testing.T) {
	made := 0
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, ok := obj.(*corev1.Pod); ok {
				made++
				obj.SetName("p")
				obj.SetLabels(map[string]string{"policy": "applied"})
			}
			return c.Create(ctx, obj, opts...)
		},
	}).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "remit"}}).Build()
	s := newServers(Options{Client: c, Live: c, GlobalNamespace: "remit", Clock: clocktesting.NewFakeClock(now.Time)})
	cs := catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "x"})
	cs.UID = "u"
	got := s.ensure(t.Context(), cs, registryImage{reference: "quay.io/x@sha256:1"}, nil)
	require.ErrorContains(t, got.err, "an admission webhook changed the Pod's label")
	require.True(t, got.retry)
	require.Equal(t, 1, made)
	list := &corev1.PodList{}
	require.NoError(t, c.List(t.Context(), list))
	require.Empty(t, list.Items)
}

// The digest of an image is unknown while its registry does not respond. The Pod that runs the image by tag is replaced when
// the digest is known, and never replaces one that runs a digest.
func TestRunsAnUnreadImageByTagUntilItsDigestIsKnown(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{labelEnforce: restricted}}}).
		WithStatusSubresource(&corev1.Pod{}).Build()
	s := newServers(Options{Client: c, Live: c, Clock: clocktesting.NewFakeClock(now.Time), WorkloadUser: 1001})
	cs := catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "quay.io/x:v1"})
	cs.Namespace, cs.UID = "team", "u"
	byTag, pinned := registryImage{reference: "quay.io/x:v1"}, registryImage{reference: "quay.io/x@sha256:1", user: "2000"}
	pods := func() []corev1.Pod {
		list := &corev1.PodList{}
		require.NoError(t, c.List(t.Context(), list))
		return list.Items
	}
	require.False(t, s.mayRunUnread(t.Context(), cs), "the controller identity runs only digests")
	require.ErrorContains(t, s.ensure(t.Context(), cs, byTag, nil).err, "must be referenced by digest")
	require.Empty(t, pods())

	s.byTag = true
	for range 2 {
		require.True(t, s.mayRunUnread(t.Context(), cs))
		require.NoError(t, s.ensure(t.Context(), cs, byTag, nil).err)
		require.Len(t, pods(), 1)
	}
	first := pods()[0]
	require.Equal(t, "quay.io/x:v1", first.Spec.Containers[0].Image)
	require.Equal(t, corev1.PullAlways, first.Spec.Containers[0].ImagePullPolicy)
	require.EqualValues(t, 1001, *first.Spec.SecurityContext.RunAsUser)

	require.NoError(t, s.ensure(t.Context(), cs, pinned, nil).err)
	require.Len(t, pods(), 2)
	update := pods()[slices.IndexFunc(pods(), func(p corev1.Pod) bool { return p.Name != first.Name })]
	require.True(t, server.IsUpdate(&update))
	require.Equal(t, "quay.io/x@sha256:1", update.Spec.Containers[0].Image)
	require.Nil(t, update.Spec.SecurityContext.RunAsUser, "the image has a user")
	require.False(t, s.mayRunUnread(t.Context(), cs))
}

func TestPodTarget(t *testing.T) {
	for ip, want := range map[string]string{"10.1.2.3": "10.1.2.3:50051", "fd00::1": "[fd00::1]:50051",
		"127.0.0.1": "", "::1": "", "169.254.169.254": "", "0.0.0.0": "", "": "", "kubernetes.default.svc": ""} {
		target, trouble := podTarget(&corev1.Pod{Status: corev1.PodStatus{PodIP: ip}})
		require.Equal(t, want, target)
		require.Equal(t, want == "", trouble != "")
	}
}

func TestRefusesInvalidServiceNames(t *testing.T) {
	s := newServers(Options{GlobalNamespace: "remit"})
	got := s.ensure(t.Context(), catalogSource("1st", operatorsv1alpha1.CatalogSourceSpec{}), registryImage{reference: "quay.io/x@sha256:1"}, nil)
	require.ErrorContains(t, got.err, `the name of CatalogSource "1st" does not yield a valid Service name`)
	require.False(t, got.retry)
}

// If each refusal named a different Pod, each would change the status and thereby trigger another reconcile.
func TestReportsARefusedPodConsistently(t *testing.T) {
	images := registry.New(t)
	ref, pinned := pushRegistry(t, images, "catalog", "1")
	c := givenCluster(t, nil)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	require.NoError(t, c.Create(t.Context(), quota))
	require.EventuallyWithT(t, func(col *assert.CollectT) {
		require.NoError(col, c.Get(t.Context(), client.ObjectKeyFromObject(quota), quota))
		require.Contains(col, quota.Status.Hard, corev1.ResourcePods)
	}, time.Minute, 50*time.Millisecond)
	c.create(t, "cat", map[string]any{"sourceType": "grpc", "image": ref})
	require.EventuallyWithT(t, func(col *assert.CollectT) {
		u := newObject()
		require.NoError(col, c.Get(t.Context(), c.key("cat"), u))
		message, _, _ := unstructured.NestedString(u.Object, "status", "message")
		require.Contains(col, message, "create registry Pod: pods is forbidden: exceeded quota")
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, c.Delete(t.Context(), quota))
	c.onePod(t, "cat", pinned)
}

func TestRemovesGeneratedNamesFromRefusals(t *testing.T) {
	err := unnamed(fmt.Errorf("x: %w", apierrors.NewForbidden(corev1.Resource("pods"), "cat-x7k2p", errors.New("exceeded quota"))))
	require.EqualError(t, err, `pods is forbidden: exceeded quota`)
	require.True(t, apierrors.IsForbidden(err))
	require.EqualError(t, unnamed(errors.New("x")), "x")
}
