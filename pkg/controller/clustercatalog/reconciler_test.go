package clustercatalog

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/web"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/registry"
)

const (
	packageA = `{"schema":"olm.package","name":"a","defaultChannel":"stable"}
{"schema":"olm.channel","package":"a","name":"stable","entries":[{"name":"a.v1"}]}
{"schema":"olm.bundle","package":"a","name":"a.v1","image":"example.com/a:v1","properties":[{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}}]}
`
	root = "https://catalogs.remit.svc"
)

var packageB = strings.ReplaceAll(strings.ReplaceAll(packageA, `"a"`, `"b"`), "a.v1", "b.v1")

// world is a Reconciler with a registry, a fake API server and a fake clock.
type world struct {
	*Reconciler
	t        *testing.T
	registry *registry.Server
	clock    *clocktesting.FakeClock
	web      *web.Server
	dir      string
	woken    chan string
}

func given(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	return givenWith(t, func(*Options) {}, objects...)
}

// givenWith is like given, but allows options to be changed.
func givenWith(t *testing.T, edit func(*Options), objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, olmv1.AddToScheme(scheme))
	w := &world{t: t, registry: registry.New(t), clock: clocktesting.NewFakeClock(time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)), web: web.New(root), dir: t.TempDir(), woken: make(chan string, 100)}
	images, err := image.New(image.Options{AllPlain: true})
	require.NoError(t, err)
	store, err := disk.Open(w.dir, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	options := Options{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&olmv1.ClusterCatalog{}).Build(),
		Store:  &catalog.Store{}, Server: w.web, Images: images, Disk: store, Clock: w.clock,
	}
	edit(&options)
	w.Reconciler, err = New(options)
	require.NoError(t, err)
	w.catalogs.wake = func(key types.NamespacedName) { w.woken <- key.Name }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.catalogs.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return w
}

// startBundles starts the goroutines that read the images of bundles.
func (w *world) startBundles() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.bundles.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		require.NoError(w.t, <-ended)
	})
}

// push pushes a catalog as "catalog:v1", and returns its name by tag and by digest.
func (w *world) push(text string) (ref, digest string) {
	w.t.Helper()
	made, err := registry.Catalog(fstest.MapFS{"a.json": {Data: []byte(text)}})
	require.NoError(w.t, err)
	ref, sum, err := w.registry.Push("catalog:v1", made)
	require.NoError(w.t, err)
	return ref, w.registry.Host + "/catalog@" + sum
}

// create creates a ClusterCatalog and returns its status after the image was checked.
func (w *world) create(name, ref string, edits ...func(*olmv1.ClusterCatalog)) *olmv1.ClusterCatalog {
	w.t.Helper()
	k := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	k.Spec.Source = olmv1.ClusterCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: ref}}
	for _, edit := range edits {
		edit(k)
	}
	require.NoError(w.t, w.Client.Create(w.t.Context(), k))
	return w.afterCheck(name)
}

func (w *world) reconcile(name string) *olmv1.ClusterCatalog {
	w.t.Helper()
	_, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	require.NoError(w.t, err)
	k := &olmv1.ClusterCatalog{}
	require.NoError(w.t, client.IgnoreNotFound(w.Client.Get(w.t.Context(), types.NamespacedName{Name: name}, k)))
	return k
}

// afterCheck reconciles until the image was checked once more.
func (w *world) afterCheck(name string) *olmv1.ClusterCatalog {
	w.t.Helper()
	w.reconcile(name)
	select {
	case got := <-w.woken:
		require.Equal(w.t, name, got)
	case <-time.After(time.Minute):
		require.FailNow(w.t, "the image was not checked")
	}
	return w.reconcile(name)
}

// pass waits until a goroutine waits for the clock, and then advances the clock.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	require.Eventually(w.t, w.clock.HasWaiters, time.Minute, time.Millisecond)
	w.clock.Step(d)
}

func (w *world) edit(name string, edit func(*olmv1.ClusterCatalog)) {
	w.t.Helper()
	k := &olmv1.ClusterCatalog{}
	require.NoError(w.t, w.Client.Get(w.t.Context(), types.NamespacedName{Name: name}, k))
	edit(k)
	k.Generation++
	require.NoError(w.t, w.Client.Update(w.t.Context(), k))
}

// served returns the objects of a catalog, or "" if it is not served.
func (w *world) served(name string) string {
	w.t.Helper()
	out := httptest.NewRecorder()
	w.web.ServeHTTP(out, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/catalogs/"+name+"/api/v1/all", nil))
	if out.Code == http.StatusNotFound {
		return ""
	}
	text, err := io.ReadAll(out.Result().Body)
	require.NoError(w.t, err)
	return string(text)
}

func (w *world) packages(name string) []string {
	snap, ok := w.Store.Get(types.NamespacedName{Name: name})
	if !ok {
		return nil
	}
	return snap.PackageNames()
}

func (w *world) files() []string {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "*", "*"))
	require.NoError(w.t, err)
	return files
}

func requireCondition(t *testing.T, k *olmv1.ClusterCatalog, kind string, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	for _, c := range k.Status.Conditions {
		if c.Type == kind {
			require.Equal(t, []string{string(status), reason}, []string{string(c.Status), c.Reason}, c.Message)
			require.Contains(t, c.Message, message)
			require.Equal(t, k.Generation, c.ObservedGeneration)
			return
		}
	}
	require.Failf(t, "no condition", "%s", kind)
}

func requireServed(t *testing.T, k *olmv1.ClusterCatalog, digest string) {
	t.Helper()
	requireCondition(t, k, olmv1.TypeServing, metav1.ConditionTrue, olmv1.ReasonAvailable, "")
	require.Equal(t, digest, k.Status.ResolvedSource.Image.Ref)
	require.Equal(t, root+"/catalogs/"+k.Name, k.Status.URLs.Base)
	require.False(t, k.Status.LastUnpacked.IsZero())
}

func every(minutes int) func(*olmv1.ClusterCatalog) {
	return func(k *olmv1.ClusterCatalog) { k.Spec.Source.Image.PollIntervalMinutes = &minutes }
}

// ClusterExtensions do not use the default channel, and OLM v1 does not require one.
func TestServesAPackageWithoutADefaultChannel(t *testing.T) {
	w := given(t)
	ref, digest := w.push(strings.Replace(packageA, `,"defaultChannel":"stable"`, "", 1))
	got := w.create("one", ref)
	requireServed(t, got, digest)
	require.NotEmpty(t, w.packages("one"))
	require.Contains(t, w.served("one"), `{"schema":"olm.package","name":"a"}`+"\n")
}

func TestServesACatalog(t *testing.T) {
	w := given(t)
	ref, digest := w.push(packageA)
	got := w.create("one", ref, func(k *olmv1.ClusterCatalog) { k.Spec.Priority = 7 })
	requireServed(t, got, digest)
	requireCondition(t, got, olmv1.TypeServing, metav1.ConditionTrue, olmv1.ReasonAvailable, "1 package is served")
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded, "is up to date")
	require.Equal(t, map[string]string{olmv1.LabelMetadataName: "one"}, got.Labels)
	require.Equal(t, packageA[:strings.Index(packageA, "\n")+1], w.served("one")[:strings.Index(packageA, "\n")+1])
	require.Len(t, strings.Split(strings.TrimSpace(w.served("one")), "\n"), 3)
	snap, ok := w.Store.Get(types.NamespacedName{Name: "one"})
	require.True(t, ok)
	require.Equal(t, 7, snap.Priority)

	version := got.ResourceVersion
	require.Equal(t, version, w.reconcile("one").ResourceVersion, "nothing is written if nothing changed")
	require.False(t, w.clock.HasWaiters(), "an image is not polled by default")

	w.edit("one", func(k *olmv1.ClusterCatalog) { k.Spec.Priority = -1 })
	w.reconcile("one")
	snap, _ = w.Store.Get(types.NamespacedName{Name: "one"})
	require.Equal(t, -1, snap.Priority)

	require.NoError(t, w.Client.Delete(t.Context(), got))
	w.reconcile("one")
	require.Empty(t, w.served("one"))
	require.Nil(t, w.packages("one"))
	require.Empty(t, w.files())
}

func TestPollsTheDigestOfAnImage(t *testing.T) {
	w := given(t)
	ref, first := w.push(packageA)
	got := w.create("one", ref, every(10))
	requireServed(t, got, first)
	unpacked := got.Status.LastUnpacked
	blobs := w.registry.Requests("/blobs/")
	w.pass(12 * time.Minute)
	got = w.afterCheck("one")
	require.Equal(t, blobs, w.registry.Requests("/blobs/"), "an unchanged image is not read")
	require.Equal(t, unpacked, got.Status.LastUnpacked)

	_, second := w.push(packageA + packageB)
	w.pass(12 * time.Minute)
	got = w.afterCheck("one")
	requireServed(t, got, second)
	require.True(t, unpacked.Before(got.Status.LastUnpacked))
	require.Equal(t, []string{"a", "b"}, w.packages("one"))
	require.Contains(t, w.served("one"), "b.v1")
	require.Len(t, w.files(), 3, "the replaced content is deleted")
}

func TestKeepsTheLastGoodContent(t *testing.T) {
	w := given(t)
	ref, good := w.push(packageA)
	requireServed(t, w.create("one", ref, every(10)), good)

	w.push("{")
	w.pass(12 * time.Minute)
	got := w.afterCheck("one")
	requireServed(t, got, good)
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked, "read the file-based catalog: file \"a.json\"")
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked, "; the content of "+good+" is still served")
	blobs := w.registry.Requests("/blobs/")
	w.pass(12 * time.Minute)
	w.afterCheck("one")
	require.Equal(t, blobs, w.registry.Requests("/blobs/"), "an invalid image is not read again")

	w.registry.Answer(func(out http.ResponseWriter, _ *http.Request) bool {
		out.WriteHeader(http.StatusBadGateway)
		return true
	})
	w.pass(12 * time.Minute)
	got = w.afterCheck("one")
	requireServed(t, got, good)
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, "502")

	w.registry.Answer(nil)
	_, next := w.push(packageB)
	w.pass(kit.LastPause + time.Minute)
	requireServed(t, w.afterCheck("one"), next)
}

func TestReportsWhyNothingIsServed(t *testing.T) {
	w := given(t)
	ref, _ := w.push("{")
	got := w.create("malformed", ref)
	requireCondition(t, got, olmv1.TypeServing, metav1.ConditionFalse, olmv1.ReasonUnavailable, "no content")
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked, "read the file-based catalog")
	require.Nil(t, got.Status.URLs)
	require.Nil(t, got.Status.ResolvedSource)
	require.Nil(t, got.Status.LastUnpacked)

	got = w.create("missing", w.registry.Host+"/other:v1")
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, "NAME_UNKNOWN")

	made, err := registry.Image(nil)
	require.NoError(t, err)
	plain, _, err := w.registry.Push("plain:v1", made)
	require.NoError(t, err)
	got = w.create("plain", plain)
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked, "the image contains no file-based catalog")
}

// The image is requested again after 10 seconds, and then with exponential backoff.
func TestRetriesAFailedPull(t *testing.T) {
	w := given(t)
	w.registry.Answer(func(out http.ResponseWriter, _ *http.Request) bool {
		out.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	got := w.create("one", w.registry.Host+"/catalog:v1")
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, "503")
	w.pass(kit.FirstPause - time.Second)
	require.Never(t, func() bool { return len(w.woken) > 0 }, 50*time.Millisecond, 10*time.Millisecond)
	w.pass(2 * time.Second)
	w.afterCheck("one")
	w.pass(2*kit.FirstPause - time.Second)
	require.Never(t, func() bool { return len(w.woken) > 0 }, 50*time.Millisecond, 10*time.Millisecond)
	w.registry.Answer(nil)
	_, digest := w.push(packageA)
	w.pass(4 * time.Second)
	requireServed(t, w.afterCheck("one"), digest)
}

func TestUnavailableContentIsDeleted(t *testing.T) {
	w := given(t)
	ref, digest := w.push(packageA)
	requireServed(t, w.create("one", ref, every(10)), digest)
	w.edit("one", func(k *olmv1.ClusterCatalog) { k.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable })
	got := w.reconcile("one")
	requireCondition(t, got, olmv1.TypeServing, metav1.ConditionFalse, olmv1.ReasonUserSpecifiedUnavailable, "spec.availabilityMode is Unavailable")
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded, "")
	require.Nil(t, got.Status.URLs)
	require.Nil(t, got.Status.ResolvedSource)
	require.Nil(t, got.Status.LastUnpacked)
	require.Empty(t, w.served("one"))
	require.Nil(t, w.packages("one"))
	require.Empty(t, w.files())
	require.Eventually(t, func() bool { return !w.clock.HasWaiters() }, time.Minute, time.Millisecond, "the image is not polled")

	w.edit("one", func(k *olmv1.ClusterCatalog) { k.Spec.AvailabilityMode = olmv1.AvailabilityModeAvailable })
	requireServed(t, w.afterCheck("one"), digest)
}

// The content of the previous image is served until the new image has been read.
func TestANewImageReplacesContentWhenItIsRead(t *testing.T) {
	w := given(t)
	ref, digest := w.push(packageA)
	requireServed(t, w.create("one", ref), digest)
	w.edit("one", func(k *olmv1.ClusterCatalog) { k.Spec.Source.Image.Ref = w.registry.Host + "/other:v1" })
	got := w.reconcile("one")
	requireServed(t, got, digest)
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, "other:v1")
	require.Equal(t, "one", <-w.woken)
	got = w.reconcile("one")
	requireServed(t, got, digest)
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, "404")

	made, err := registry.Catalog(fstest.MapFS{"b.json": {Data: []byte(packageB)}})
	require.NoError(t, err)
	other, sum, err := w.registry.Push("other:v2", made)
	require.NoError(t, err)
	w.edit("one", func(k *olmv1.ClusterCatalog) { k.Spec.Source.Image.Ref = other })
	requireServed(t, w.afterCheck("one"), w.registry.Host+"/other@"+sum)
	require.Equal(t, []string{"b"}, w.packages("one"))
	require.Len(t, w.files(), 3)
}

// Two ClusterCatalogs with the same image share its files.
func TestCatalogsWithTheSameImage(t *testing.T) {
	w := given(t)
	ref, digest := w.push(packageA)
	requireServed(t, w.create("one", ref), digest)
	blobs := len(w.registry.Requests("GET /v2/catalog/blobs/"))
	got := w.create("two", ref)
	requireServed(t, got, digest)
	require.Len(t, w.registry.Requests("GET /v2/catalog/blobs/"), blobs, "nothing is read again")
	require.NoError(t, w.Client.Delete(t.Context(), &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "one"}}))
	w.reconcile("one")
	require.Empty(t, w.served("one"))
	require.Contains(t, w.served("two"), "a.v1")
	require.Len(t, w.files(), 3)
}

// The content of a bundle that the catalog names by image is available through the Snapshot's Reader.
func TestReadsTheImagesOfBundles(t *testing.T) {
	w := given(t)
	w.startBundles()
	ref, digest := w.pushWithBundle()
	requireServed(t, w.create("one", ref), digest)
	w.readBundle("one")
}

// pushWithBundle pushes a bundle and a catalog that names its image.
func (w *world) pushWithBundle() (ref, digest string) {
	w.t.Helper()
	made, err := registry.Bundle(fstest.MapFS{"manifests/csv.yaml": {Data: []byte(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion"}`)}})
	require.NoError(w.t, err)
	bundle, _, err := w.registry.Push("bundle:v1", made)
	require.NoError(w.t, err)
	return w.push(strings.ReplaceAll(packageA, "example.com/a:v1", bundle))
}

// readBundle reads the bundle of pushWithBundle through the Snapshot of a catalog.
func (w *world) readBundle(name string) {
	w.t.Helper()
	touched := make(chan types.NamespacedName, 10)
	w.Store.Watch(func(change catalog.Change) { touched <- change.Catalog })
	snap, ok := w.Store.Get(types.NamespacedName{Name: name})
	require.True(w.t, ok)
	_, err := snap.Reader.Content(w.t.Context(), "a", "stable", "a.v1")
	require.ErrorIs(w.t, err, catalog.ErrNoContent)
	require.Equal(w.t, name, (<-touched).Name)
	content, err := snap.Reader.Content(w.t.Context(), "a", "stable", "a.v1")
	require.NoError(w.t, err)
	require.Len(w.t, content.Manifests, 1)
}

// After a restart, the time at which the content was unpacked stays the same.
func TestLastUnpackedSurvivesARestart(t *testing.T) {
	k := &olmv1.ClusterCatalog{}
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	k.Status.LastUnpacked = &at
	k.Status.ResolvedSource = &olmv1.ResolvedCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ResolvedImageSource{Ref: "a@sha256:1"}}
	now := metav1.NewTime(at.AddDate(0, 1, 0))
	require.Equal(t, &k.Status, desired(k, view{}, root, now), "the image was not checked yet")
	seen := view{checked: true, good: &loaded{ref: "a@sha256:1", at: now.Time}}
	seen.good.Snapshot = &catalog.Snapshot{}
	require.Equal(t, &at, desired(k, seen, root, now).LastUnpacked)
	seen.good.ref = "a@sha256:2"
	require.Equal(t, &now, desired(k, seen, root, now).LastUnpacked)
	require.Nil(t, desired(k, view{checked: true, err: errors.New("not found")}, root, now).LastUnpacked)
	k.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
	require.Nil(t, desired(k, view{}, root, now).LastUnpacked)
}

func TestRestoresTheLabel(t *testing.T) {
	w := given(t)
	ref, _ := w.push(packageA)
	w.create("one", ref, func(k *olmv1.ClusterCatalog) {
		k.Labels = map[string]string{"team": "a", olmv1.LabelMetadataName: "another"}
	})
	require.Equal(t, map[string]string{"team": "a", olmv1.LabelMetadataName: "one"}, w.reconcile("one").Labels)
}

func TestNewValidatesItsOptions(t *testing.T) {
	_, err := New(Options{})
	require.EqualError(t, err, "clustercatalog: Client, Store, Server, Images and Disk are required")
}
