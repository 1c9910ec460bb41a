package clusterextension_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/test/env/audit"
)

// world is one test's part of the cluster: a namespace, a catalog, and an extension, all with the same unique name, and a
// package "op" with bundles op.v<version>.
type world struct {
	*program
	t    *testing.T
	name string
	snap catalog.Snapshot
	// contents contains the manifests of the published bundles. Controllers read it, so publish replaces it.
	contents contents
	// requires are the dependencies of the bundles that are published next.
	requires []catalog.Property
}

var worlds atomic.Int64

func given(t *testing.T) *world {
	t.Helper()
	p := running(t)
	w := &world{program: p, t: t, name: fmt.Sprintf("x%d-%d", worlds.Add(1), time.Now().UnixNano()%100000), contents: contents{}}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	k := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	k.Spec.Source = olmv1.ClusterCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: "images.test/catalog:v1"}}
	w.create(k)
	t.Cleanup(func() {
		ctx := context.Background()
		_ = w.admin.Delete(ctx, &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
		_ = w.admin.Delete(ctx, k)
		p.store.Delete(types.NamespacedName{Name: w.name})
	})
	w.snap = catalog.Snapshot{Key: types.NamespacedName{Name: w.name}, Packages: map[string]*catalog.Package{"op": {
		Name: "op", DefaultChannel: "stable", Channels: map[string]*catalog.Channel{"stable": {Name: "stable", Entries: map[string]catalog.Entry{}}},
		Bundles: map[string]*catalog.Bundle{},
	}}}
	return w
}

// contents maps the names of bundles to their manifests.
type contents map[string][]string

// Content implements catalog.ContentReader.
func (c contents) Content(_ context.Context, _, _, bundle string) (*catalog.Content, error) {
	out := &catalog.Content{}
	for _, text := range c[bundle] {
		out.Manifests = append(out.Manifests, []byte(text))
	}
	if len(out.Manifests) == 0 {
		return nil, catalog.ErrNoContent
	}
	return out, nil
}

// publish adds a bundle to the catalog, and publishes it. The text NAME in manifests is replaced with the name of the world.
func (w *world) publish(version, replaces string, manifests ...string) {
	w.t.Helper()
	name := "op.v" + version
	pkg := *w.snap.Packages["op"]
	channel := *pkg.Channels["stable"]
	entries := map[string]catalog.Entry{name: {Name: name, Replaces: replaces}}
	for k, v := range channel.Entries {
		entries[k] = v
	}
	channel.Entries = entries
	pkg.Channels = map[string]*catalog.Channel{"stable": &channel}
	bundles := map[string]*catalog.Bundle{name: {Name: name, Package: "op", Version: version, Properties: w.requires}}
	for k, v := range pkg.Bundles {
		bundles[k] = v
	}
	pkg.Bundles = bundles
	w.contents = maps.Clone(w.contents)
	replacer := strings.NewReplacer("NAME", w.name, "VERSION", version)
	for _, m := range manifests {
		w.contents[name] = append(w.contents[name], replacer.Replace(m))
	}
	w.snap.Packages = map[string]*catalog.Package{"op": &pkg}
	w.snap.Digest = fmt.Sprintf("sha256:%d", time.Now().UnixNano())
	published := w.snap
	published.Reader = w.contents
	w.store.Put(&published)
}

func (w *world) create(obj client.Object) {
	w.t.Helper()
	require.NoError(w.t, w.admin.Create(w.t.Context(), obj))
}

// apply creates the objects in YAML, like an administrator who applies a report. It returns the time before the last one
// that did not exist.
func (w *world) apply(text string) (last time.Time) {
	w.t.Helper()
	reader := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := reader.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return last
		}
		require.NoError(w.t, err, text)
		if len(obj.Object) > 0 {
			now := time.Now()
			err := w.admin.Create(w.t.Context(), obj)
			if require.NoError(w.t, client.IgnoreAlreadyExists(err), text); err == nil {
				last = now
			}
		}
	}
}

// install creates the extension. If the controller is running, it first waits until the controller's cache contains all catalogs;
// otherwise, the first status could say that there is none.
func (w *world) install(edits ...func(*olmv1.ClusterExtension)) {
	w.t.Helper()
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	ext.Spec.Namespace = w.name
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{
		PackageName: "op", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: w.name}},
	}}
	for _, edit := range edits {
		edit(ext)
	}
	if w.cache != nil {
		w.awaitCatalogs()
	}
	w.create(ext)
}

// awaitCatalogs waits until the cache of the controller contains all catalogs that exist now.
func (w *world) awaitCatalogs() {
	w.t.Helper()
	existing := &olmv1.ClusterCatalogList{}
	require.NoError(w.t, w.admin.List(w.t.Context(), existing))
	require.EventuallyWithT(w.t, func(t *assert.CollectT) {
		for i := range existing.Items {
			key := client.ObjectKeyFromObject(&existing.Items[i])
			if err := w.cache.Get(w.t.Context(), key, &olmv1.ClusterCatalog{}); err != nil {
				assert.True(t, apierrors.IsNotFound(w.admin.Get(w.t.Context(), key, &olmv1.ClusterCatalog{})), "%s: %v", key, err)
			}
		}
	}, patience, tick)
}

// installed installs version 1.0.0 of a bundle as a cluster-admin.
func (w *world) installed(manifests ...string) {
	w.t.Helper()
	w.grantAll()
	w.publish("1.0.0", "", manifests...)
	w.install()
	w.awaitInstalled("1.0.0")
}

// installedAfterGrant installs version 1.0.0 of a bundle as its synthetic user, after granting the permissions in the report.
func (w *world) installedAfterGrant(manifests ...string) {
	w.t.Helper()
	w.missing(manifests...)
	w.apply(w.report(preflight.FileGrant))
	w.awaitInstalled("1.0.0")
}

// edit changes the extension.
func (w *world) edit(change func(*olmv1.ClusterExtension)) {
	w.t.Helper()
	require.EventuallyWithT(w.t, func(t *assert.CollectT) {
		ext := w.get()
		change(ext)
		assert.NoError(t, w.admin.Update(w.t.Context(), ext))
	}, patience, tick)
}

func (w *world) get() *olmv1.ClusterExtension {
	w.t.Helper()
	ext := &olmv1.ClusterExtension{}
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Name: w.name}, ext))
	return ext
}

// await waits until a condition of the extension has a status and a reason, and returns its message.
func (w *world) await(kind string, value metav1.ConditionStatus, reason string) string {
	w.t.Helper()
	message := ""
	ok := assert.EventuallyWithT(w.t, func(t *assert.CollectT) {
		c := meta.FindStatusCondition(w.get().Status.Conditions, kind)
		if assert.NotNil(t, c) {
			assert.Equal(t, string(value)+" "+reason, string(c.Status)+" "+c.Reason, c.Message)
			message = c.Message
		}
	}, patience, tick)
	if !ok {
		for _, c := range w.get().Status.Conditions {
			w.t.Logf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		w.t.FailNow()
	}
	return message
}

// retries waits until the extension is retrying for a reason that contains the text. Right after an enrollment, it may
// first retry for another reason, because the API server may not have processed the enrollment yet.
func (w *world) retries(text string) {
	w.t.Helper()
	require.EventuallyWithT(w.t, func(t *assert.CollectT) {
		if c := meta.FindStatusCondition(w.get().Status.Conditions, olmv1.TypeProgressing); assert.NotNil(t, c) {
			assert.Equal(t, "True "+olmv1.ReasonRetrying, string(c.Status)+" "+c.Reason)
			assert.Contains(t, c.Message, text)
		}
	}, patience, tick)
}

func (w *world) awaitInstalled(version string) {
	w.t.Helper()
	require.EventuallyWithT(w.t, func(t *assert.CollectT) {
		ext := w.get()
		c := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing)
		if assert.NotNil(t, c) && assert.NotNil(t, ext.Status.Install, "%v", ext.Status.Conditions) {
			assert.Equal(t, version, ext.Status.Install.Bundle.Version, "%v", ext.Status.Conditions)
			assert.Equal(t, olmv1.ReasonSucceeded, c.Reason, c.Message)
		}
	}, patience, tick)
}

// report returns a file of the report.
func (w *world) report(file string) string {
	w.t.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: home, Name: clusterextension.ReportName(w.name)}, cm))
	return cm.Data[file]
}

// exists reports whether an object exists. It returns false if the kind is not served.
func (w *world) exists(obj client.Object, name string) bool {
	w.t.Helper()
	err := w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: w.name, Name: name}, obj)
	if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		require.NoError(w.t, err)
	}
	return err == nil
}

func (w *world) deployment() *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: w.name, Name: "op"}, d))
	return d
}

// requests returns the requests in the audit log after an offset for which matches returns true.
func (w *world) requests(from int64, matches func(audit.Event) bool) []audit.Event {
	w.t.Helper()
	var out []audit.Event
	_, err := audit.From(w.AuditLog, from, func(e audit.Event) error {
		if matches(e) {
			out = append(out, e)
		}
		return nil
	})
	require.NoError(w.t, err)
	return out
}

func (w *world) logEnd() int64 {
	w.t.Helper()
	end, err := audit.End(w.AuditLog)
	require.NoError(w.t, err)
	return end
}

// user is the synthetic user of the extension.
func (w *world) user() string { return "olm:clusterextension:" + w.name }

// sentAs reports whether a request was sent as the extension's synthetic user.
func (w *world) sentAs(e audit.Event) bool {
	return e.Impersonated != nil && e.Impersonated.Username == w.user()
}

// grantAll applies the enrollment and makes the extension's user a cluster-admin.
func (w *world) grantAll() {
	w.t.Helper()
	w.enroll()
	w.apply(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: admin-%[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "olm:clusterextension:%[1]s"}]
`, w.name))
}

func rbacBinding() *rbacv1.ClusterRoleBinding { return &rbacv1.ClusterRoleBinding{} }
