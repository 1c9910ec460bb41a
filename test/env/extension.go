package env

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/env/registry"
)

// Extension is a ClusterExtension with a unique name, which is also the name of its namespace.
type Extension struct {
	T       testing.TB
	Cluster *Cluster
	Name    string
	// Since is an offset in the audit log before which there are no requests as the identity.
	Since int64

	// marks contains the times of the offsets that Mark has returned.
	marks map[int64]time.Time
}

// Extension creates the namespace of a ClusterExtension.
func (c *Cluster) Extension(t testing.TB) *Extension {
	t.Helper()
	x := &Extension{T: t, Cluster: c, Name: "ext-" + rand.String(6)}
	x.Since = x.Mark()
	x.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: x.Name}})
	return x
}

// NewClusterExtension returns a ClusterExtension that installs a package into the namespace of the same name.
func NewClusterExtension(name, pkg string) *olmv1.ClusterExtension {
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ext.Spec.Namespace = name
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: pkg}}
	return ext
}

// ServeCatalog creates a ClusterCatalog whose image contains a file-based catalog, and waits until its content is available.
func (c *Cluster) ServeCatalog(t testing.TB, images *registry.Server, name, content string) {
	t.Helper()
	ref, _, err := images.PushCatalog(name+":v1", content)
	require.NoError(t, err)
	k := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}}
	k.Spec.Source = olmv1.ClusterCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: ref}}
	require.NoError(t, c.Client.Create(t.Context(), k))
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), k) })
	Eventually(t, func(collect *assert.CollectT) {
		if assert.NoError(collect, c.Client.Get(t.Context(), client.ObjectKeyFromObject(k), k)) {
			assert.True(collect, meta.IsStatusConditionTrue(k.Status.Conditions, olmv1.TypeServing), "%+v", k.Status.Conditions)
		}
	})
}

// Create creates objects as the cluster administrator.
func (x *Extension) Create(objs ...client.Object) {
	x.T.Helper()
	for _, obj := range objs {
		require.NoError(x.T, x.Cluster.Client.Create(x.T.Context(), obj))
	}
}

// Get reads the ClusterExtension.
func (x *Extension) Get() *olmv1.ClusterExtension {
	x.T.Helper()
	ext := &olmv1.ClusterExtension{}
	require.NoError(x.T, x.Cluster.Client.Get(x.T.Context(), client.ObjectKey{Name: x.Name}, ext))
	return ext
}

// Says waits until a condition has the given status and reason and its message contains the given words. It returns the
// message.
func (x *Extension) Says(kind string, status metav1.ConditionStatus, reason string, words ...string) string {
	x.T.Helper()
	message := ""
	Eventually(x.T, func(c *assert.CollectT) {
		ext := x.Get()
		got := meta.FindStatusCondition(ext.Status.Conditions, kind)
		if assert.NotNil(c, got) {
			assert.Equal(c, string(status)+" "+reason, string(got.Status)+" "+got.Reason, got.Message)
			assert.Equal(c, ext.Generation, got.ObservedGeneration)
			for _, w := range words {
				assert.Contains(c, got.Message, w)
			}
			message = got.Message
		}
	})
	return message
}

// Installed waits until the given version is installed.
func (x *Extension) Installed(version string) {
	x.T.Helper()
	Eventually(x.T, func(c *assert.CollectT) {
		ext := x.Get()
		if assert.NotNil(c, ext.Status.Install, "%+v", ext.Status.Conditions) {
			assert.Equal(c, version, ext.Status.Install.Bundle.Version, "%+v", ext.Status.Conditions)
		}
	})
	x.Says(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	x.Says(olmv1.TypeAuthorized, metav1.ConditionTrue, olmv1.ReasonSucceeded)
}

// Reported returns the objects in a file of the report.
func (x *Extension) Reported(file string) []*unstructured.Unstructured {
	x.T.Helper()
	report := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: x.Cluster.Home, Name: clusterextension.ReportName(x.Name)}
	require.NoError(x.T, x.Cluster.Client.Get(x.T.Context(), key, report))
	objs := Decode(x.T, report.Data[file])
	require.NotEmpty(x.T, objs, "%s of the report is empty", file)
	return objs
}

// Paste applies a file of the report as the cluster administrator.
func (x *Extension) Paste(file string) {
	x.T.Helper()
	x.Cluster.Apply(x.T, x.Reported(file)...)
}

// Apply applies objects as the cluster administrator.
func (c *Cluster) Apply(t testing.TB, objs ...*unstructured.Unstructured) {
	t.Helper()
	for _, obj := range objs {
		err := c.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("admin"))
		require.NoError(t, err, "%s %s", obj.GetKind(), obj.GetName())
	}
}

// Decode returns the objects in a YAML file, which can contain several documents.
func Decode(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return slices.DeleteFunc(out, func(obj *unstructured.Unstructured) bool { return obj.Object == nil }) // only comments
		}
		require.NoError(t, err)
		out = append(out, obj)
	}
}

// Identity returns the identity that the spec of the ClusterExtension selects.
func (x *Extension) Identity() scoped.Identity {
	x.T.Helper()
	return assess.Identity(x.Get())
}

// User returns the identity of the ClusterExtension if it has no ServiceAccount.
func (x *Extension) User() scoped.Identity {
	x.T.Helper()
	identity, err := scoped.ExtensionIdentity(x.Name)
	require.NoError(x.T, err)
	return identity
}

// Requests returns all requests sent as the identity after an offset of the audit log.
func (x *Extension) Requests(from int64) []audit.Event {
	x.T.Helper()
	return x.RequestsAs(x.Identity(), from)
}

// RequestsAs returns all requests sent as an identity after an offset of the audit log. A watch is logged when it ends, so requests that
// the API server received before Mark returned the offset are omitted.
func (x *Extension) RequestsAs(identity scoped.Identity, from int64) []audit.Event {
	x.T.Helper()
	user := identity.Username()
	events, _, err := x.Cluster.AuditedFrom(x.T.Context(), from, func(e audit.Event) bool {
		return e.Actor() == user && !e.Received.Before(x.marks[from])
	})
	require.NoError(x.T, err)
	return events
}

// Remove deletes the ClusterExtension, and waits until everything that it installed is deleted.
func (x *Extension) Remove() {
	x.T.Helper()
	ext := x.Get()
	require.NotEmpty(x.T, ext.Status.Inventory)
	require.NoError(x.T, x.Cluster.Client.Delete(x.T.Context(), ext))
	Eventually(x.T, func(c *assert.CollectT) {
		for _, o := range ext.Status.Inventory {
			mapping, err := x.Cluster.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: o.Group, Kind: o.Kind})
			if !assert.NoError(c, err) {
				return
			}
			obj := &metav1.PartialObjectMetadata{}
			obj.SetGroupVersionKind(mapping.GroupVersionKind)
			err = x.Cluster.Client.Get(x.T.Context(), client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, obj)
			assert.True(c, apierrors.IsNotFound(err), "%s %s/%s: %v", o.Kind, o.Namespace, o.Name, err)
		}
	})
}

// Mark returns the current end of the audit log.
func (x *Extension) Mark() int64 {
	x.T.Helper()
	now := time.Now()
	end, err := audit.End(x.Cluster.AuditLog)
	require.NoError(x.T, err)
	if x.marks == nil {
		x.marks = map[int64]time.Time{}
	}
	x.marks[end] = now
	return end
}
