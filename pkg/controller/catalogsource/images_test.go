package catalogsource

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env/registry"
)

func push(t *testing.T, s *registry.Server, named, content string) (ref, digest string) {
	t.Helper()
	made, err := registry.Catalog(fstest.MapFS{"a/catalog.yaml": {Data: []byte(content)}})
	require.NoError(t, err)
	ref, digest, err = s.Push(named, made)
	require.NoError(t, err)
	return ref, digest
}

// running returns a world in which the goroutines of images are running.
func running(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := given(t, nil, objects...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.images.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return w
}

// afterCheck reconciles until the image has been checked once more.
func (w *world) afterCheck(t *testing.T, name string) operatorsv1alpha1.CatalogSourceStatus {
	t.Helper()
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key(name)})
	require.NoError(t, err)
	select {
	case got := <-w.woken:
		require.Equal(t, key(name), got)
	case <-time.After(5 * time.Minute):
		require.FailNow(t, "the image was not checked")
	}
	return w.reconcile(t, name)
}

// pass waits until a goroutine is waiting on the clock, and then advances the clock.
func (w *world) pass(t *testing.T, d time.Duration) {
	t.Helper()
	require.Eventually(t, w.clock.HasWaiters, time.Minute, time.Millisecond)
	w.clock.Step(d)
}

func polled(image, interval string) operatorsv1alpha1.CatalogSourceSpec {
	return operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: image,
		UpdateStrategy: &operatorsv1alpha1.UpdateStrategy{RegistryPoll: &operatorsv1alpha1.RegistryPoll{RawInterval: interval}}}
}

func (w *world) offered(t *testing.T, name string) int {
	t.Helper()
	snap, ok := w.Store.Get(key(name))
	require.True(t, ok)
	return len(snap.Packages["a"].Bundles)
}

func TestAnImageIsLoadingUntilItHasBeenPulledOnce(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "team/catalog:v1", goodCatalog)
	pull := make(chan struct{})
	s.Answer(func(http.ResponseWriter, *http.Request) bool {
		<-pull
		return false
	})
	w := running(t, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref}))
	w.reconcile(t, "cat")
	require.True(t, w.Store.IsLoading(key("cat")))
	close(pull)
	w.afterCheck(t, "cat")
	require.False(t, w.Store.IsLoading(key("cat")))
}

func TestPollsTheDigestOfAnImage(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "team/catalog:v1", goodCatalog)
	w := running(t, catalogSource("cat", polled(ref, "10m")))

	got := w.afterCheck(t, "cat")
	requireReady(t, got)
	require.Equal(t, 1, w.offered(t, "cat"))
	require.Equal(t, "in-process", got.GRPCConnectionState.Address)
	require.True(t, got.LatestImageRegistryPoll.Time.Equal(now.Time))

	loads := s.Requests("GET /v2/team/catalog/blobs/")
	w.pass(t, 12*time.Minute)
	got = w.afterCheck(t, "cat")
	requireReady(t, got)
	require.Equal(t, loads, s.Requests("GET /v2/team/catalog/blobs/"), "an unchanged image is not pulled")
	require.Len(t, s.Requests("HEAD /v2/team/catalog/manifests/v1"), 3, "one of the three requests is from the test's push")
	require.True(t, got.LatestImageRegistryPoll.Time.Equal(now.Add(12*time.Minute)))

	push(t, s, "team/catalog:v1", otherCatalog)
	w.pass(t, 12*time.Minute)
	requireReady(t, w.afterCheck(t, "cat"))
	require.Equal(t, 2, w.offered(t, "cat"))

	push(t, s, "team/catalog:v1", "schema: olm.package\nname: [")
	w.pass(t, 12*time.Minute)
	got = w.afterCheck(t, "cat")
	require.Equal(t, operatorsv1alpha1.CatalogSourceRegistryServerError, got.Reason)
	require.Contains(t, got.Message, `file "a/catalog.yaml"`)
	require.Contains(t, got.Message, "is still served")
	require.Equal(t, "TRANSIENT_FAILURE", got.GRPCConnectionState.LastObservedState)
	require.Equal(t, 2, w.offered(t, "cat"))
	pulled := len(s.Requests("GET /v2/team/catalog/blobs/"))
	w.pass(t, 12*time.Minute)
	require.Equal(t, got.Message, w.afterCheck(t, "cat").Message)
	require.Len(t, s.Requests("GET /v2/team/catalog/blobs/"), pulled, "an invalid image is not pulled again")

	s.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	w.pass(t, 12*time.Minute)
	require.Contains(t, w.afterCheck(t, "cat").Message, "502 Bad Gateway")
	s.Answer(nil)
	w.pass(t, 2*firstReload)
	require.Equal(t, got.Message, w.afterCheck(t, "cat").Message, "the error of the image is reported again")

	push(t, s, "team/catalog:v1", goodCatalog)
	w.pass(t, 12*time.Minute)
	requireReady(t, w.afterCheck(t, "cat"))
	require.Equal(t, 1, w.offered(t, "cat"))
}

// Only an image of which nothing is known may run by tag.
func TestAnImageIsUnreadUntilItsManifestIsRead(t *testing.T) {
	s := registry.New(t)
	ref := s.Host + "/db:v1"
	w := running(t, catalogSource("cat", polled(ref, "10m")), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "remit"}})
	view := func() imageView {
		w.images.mu.Lock()
		e := w.images.byKey[key("cat")]
		w.images.mu.Unlock()
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.imageView
	}
	w.afterCheck(t, "cat")
	require.True(t, view().unread)
	require.Empty(t, view().registry)

	layer, err := registry.Layer(fstest.MapFS{"index.db": {Data: []byte("x")}}, "database")
	require.NoError(t, err)
	made, err := registry.Image(nil, layer)
	require.NoError(t, err)
	made, err = mutate.Config(made, v1.Config{User: "1001:0"})
	require.NoError(t, err)
	_, digest, err := s.Push("db:v1", made)
	require.NoError(t, err)
	w.pass(t, 2*firstReload)
	w.afterCheck(t, "cat")
	require.False(t, view().unread)
	require.Equal(t, s.Host+"/db@"+digest, view().registry)
	require.Equal(t, "1001:0", view().user)

	s.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	w.pass(t, 12*time.Minute)
	w.afterCheck(t, "cat")
	require.Error(t, view().err)
	require.False(t, view().unread, "an outage does not replace a digest by a tag")
}

func TestAnInvalidReferenceIsNotUnread(t *testing.T) {
	w := running(t, catalogSource("cat", polled("no-registry", "10m")))
	w.afterCheck(t, "cat")
	require.False(t, w.images.byKey[key("cat")].unread)
}

// Most catalog images also contain a registry that serves the catalog, because OLM runs a catalog image as a Pod.
func TestReadsAnImageThatIsAlsoARegistryInProcess(t *testing.T) {
	images := registry.New(t)
	w := running(t)
	for name, labels := range map[string]map[string]string{"labeled": {registry.LabelConfigs: "/configs"}, "extracted": nil} {
		layer, err := registry.Layer(fstest.MapFS{"configs/catalog.yaml": {Data: []byte(goodCatalog)}, "bin/opm": {Data: []byte("#!/bin/opm")}}, "")
		require.NoError(t, err)
		made, err := registry.Image(labels, layer)
		require.NoError(t, err)
		made, err = mutate.Config(made, v1.Config{Labels: labels, Entrypoint: []string{"/bin/opm"}, Cmd: []string{"serve", "/configs"}})
		require.NoError(t, err)
		ref, _, err := images.Push(name+":v1", made)
		require.NoError(t, err)
		spec := operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref}
		if labels == nil {
			spec.GrpcPodConfig = &operatorsv1alpha1.GrpcPodConfig{ExtractContent: &operatorsv1alpha1.ExtractContentConfig{CatalogDir: "/configs", CacheDir: "/cache"}}
		}
		require.NoError(t, w.Client.Create(t.Context(), catalogSource(name, spec)))
		got := w.afterCheck(t, name)
		requireReady(t, got)
		require.Equal(t, "in-process", got.GRPCConnectionState.Address)
		require.Equal(t, 1, w.offered(t, name))
	}
	pods := &corev1.PodList{}
	require.NoError(t, w.Client.List(t.Context(), pods))
	require.Empty(t, pods.Items)
}

func TestABrokenFileOfAnImageRemovesNoPackages(t *testing.T) {
	s := registry.New(t)
	other := strings.NewReplacer("name: a", "name: b", "package: a", "package: b").Replace(goodCatalog)
	pushed := func(files map[string]string) string {
		made := fstest.MapFS{}
		for name, text := range files {
			made[name] = &fstest.MapFile{Data: []byte(text)}
		}
		image, err := registry.Catalog(made)
		require.NoError(t, err)
		ref, _, err := s.Push("team/catalog:v1", image)
		require.NoError(t, err)
		return ref
	}
	w := running(t, catalogSource("cat", polled(pushed(map[string]string{"a.yaml": goodCatalog, "b.yaml": other}), "10m")))
	requireReady(t, w.afterCheck(t, "cat"))
	packages := func() []string {
		snap, ok := w.Store.Get(key("cat"))
		require.True(t, ok)
		return snap.PackageNames()
	}

	pushed(map[string]string{"a.yaml": otherCatalog, "b.yaml": other, "README.md": "Not a catalog"})
	w.pass(t, 12*time.Minute)
	got := w.afterCheck(t, "cat")
	require.Equal(t, "READY", got.GRPCConnectionState.LastObservedState)
	require.Contains(t, got.Message, `file "README.md": `)
	require.Equal(t, 2, w.offered(t, "cat"))

	pushed(map[string]string{"a.yaml": goodCatalog, "b.yaml": "["})
	w.pass(t, 12*time.Minute)
	got = w.afterCheck(t, "cat")
	require.Equal(t, "TRANSIENT_FAILURE", got.GRPCConnectionState.LastObservedState)
	require.Contains(t, got.Message, `file "b.yaml": `)
	require.Equal(t, []string{"a", "b"}, packages())
	require.Equal(t, 2, w.offered(t, "cat"), "the previous content is kept as a whole")
	w.pass(t, 12*time.Minute)
	require.Equal(t, got.Message, w.afterCheck(t, "cat").Message, "the error is reported again without reading the image")
}

func TestRequestsAnImageByDigestOnce(t *testing.T) {
	s := registry.New(t)
	ref, digest := push(t, s, "catalog:v1", goodCatalog)
	w := running(t, catalogSource("cat", polled(strings.TrimSuffix(ref, ":v1")+"@"+digest, "10m")))
	requireReady(t, w.afterCheck(t, "cat"))
	require.Eventually(t, func() bool { return !w.clock.HasWaiters() }, time.Second, time.Millisecond)
}

func TestRetriesAnUnavailableRegistry(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", goodCatalog)
	s.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "<html>the secret page of another server</html>", http.StatusForbidden)
		return true
	})
	w := running(t, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref, Secrets: []string{"gone"}}))
	got := w.afterCheck(t, "cat")
	require.Equal(t, operatorsv1alpha1.CatalogSourceRegistryServerError, got.Reason)
	require.Contains(t, got.Message, "403 Forbidden")
	require.Contains(t, got.Message, `Secret "gone"`)
	require.NotContains(t, got.Message, "secret page")
	require.Equal(t, "TRANSIENT_FAILURE", got.GRPCConnectionState.LastObservedState)
	_, ok := w.Store.Get(key("cat"))
	require.False(t, ok)

	s.Answer(nil)
	w.pass(t, 2*firstReload)
	requireReady(t, w.afterCheck(t, "cat"))
}

// login makes a registry require clients to log in as user u with password p.
func login(w http.ResponseWriter, r *http.Request) bool {
	if user, password, _ := r.BasicAuth(); user == "u" && password == "p" {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

func TestPullSecrets(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "team/catalog:v1", goodCatalog)
	s.Answer(login)
	secret := func(name, at string) *corev1.Secret {
		auth := base64.StdEncoding.EncodeToString([]byte("u:p"))
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: name}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, at, auth)}}
	}
	good, other := secret("good", "https://"+s.Host+"/team"), secret("other", "quay.io")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "byaccount"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "good"}}}
	spec := func(secrets ...string) operatorsv1alpha1.CatalogSourceSpec {
		return operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref, Secrets: secrets}
	}
	w := running(t, good, other, account, catalogSource("byspec", spec("other", "good")), catalogSource("byaccount", spec("gone")), catalogSource("none", spec("other")))
	requireReady(t, w.afterCheck(t, "byspec"))
	requireReady(t, w.afterCheck(t, "byaccount"))
	require.Contains(t, w.afterCheck(t, "none").Message, "401")
}

func TestImageTemplates(t *testing.T) {
	s := registry.New(t)
	push(t, s, "catalog:v1.36", goodCatalog)
	ref, _ := push(t, s, "catalog:fallback", otherCatalog)
	good := catalogSource("good", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref})
	good.Annotations = map[string]string{annotationTemplate: s.Host + "/catalog:v{kube_major_version}.{kube_minor_version}"}
	bad := catalogSource("bad", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref})
	bad.Annotations = map[string]string{annotationTemplate: s.Host + "/catalog:v{kube_minor_version}.{phase_of_the_moon}"}
	w := running(t, good, bad)

	got := w.afterCheck(t, "good")
	requireReady(t, got)
	require.Equal(t, 1, w.offered(t, "good"))
	require.True(t, meta.IsStatusConditionTrue(got.Conditions, "TemplatesHaveResolved"))
	require.Equal(t, s.Host+"/catalog:v1.36", meta.FindStatusCondition(got.Conditions, "ResolvedImage").Message)

	got = w.afterCheck(t, "bad")
	requireReady(t, got)
	require.Equal(t, 2, w.offered(t, "bad"))
	resolved := meta.FindStatusCondition(got.Conditions, "TemplatesHaveResolved")
	require.Equal(t, "UnableToResolve", resolved.Reason)
	require.Contains(t, resolved.Message, "{phase_of_the_moon}")
}

func TestAnImageWithoutATagDefaultsToLatest(t *testing.T) {
	s := registry.New(t)
	push(t, s, "catalog:latest", goodCatalog)
	w := running(t, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: s.Host + "/catalog"}))
	requireReady(t, w.afterCheck(t, "cat"))
}

// While an image is pulled, its tag may move to an image without a label, and the CatalogSource's spec may change.
func TestChangesDuringAPull(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", goodCatalog)
	hold := make(chan struct{})
	s.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
		return false
	})
	w := running(t, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref}))
	got := w.reconcile(t, "cat")
	require.Equal(t, "CONNECTING", got.GRPCConnectionState.LastObservedState)
	require.Empty(t, got.Message)
	cs := &operatorsv1alpha1.CatalogSource{}
	require.NoError(t, w.Get(t.Context(), key("cat"), cs))
	cs.Spec.Image = "no image"
	require.NoError(t, w.Update(t.Context(), cs))
	got = w.afterCheck(t, "cat")
	require.Contains(t, got.Message, "must have the form REGISTRY/NAME")
	close(hold)
}
