package extension

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// scene is a ClusterExtension with a unique name, which is also the name of its package, its namespace and its
// ClusterCatalog.
type scene struct {
	t    *testing.T
	name string
	// since is the offset in the audit log at which the scene begins.
	since int64
}

// given creates a namespace and a ClusterCatalog with two versions of an operator. The second version needs one more
// permission.
func given(t *testing.T) *scene {
	t.Helper()
	since, err := audit.End(cluster.AuditLog)
	require.NoError(t, err)
	s := &scene{t: t, name: "ext-" + rand.String(6), since: since}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}})
	ref, _ := push(t, s.name+":v1", env.Releases(
		s.name+".v1.0.0 stable",
		s.name+".v2.0.0 stable replaces="+s.name+".v1.0.0 reads=secrets",
	))
	create(t, s.name, ref)
	await(t, s.name, olmv1.ReasonAvailable)
	return s
}

func (s *scene) create(objs ...client.Object) {
	s.t.Helper()
	for _, obj := range objs {
		require.NoError(s.t, cluster.Client.Create(s.t.Context(), obj))
	}
}

// install creates the ClusterExtension with version 1.0.0. account is the name of its ServiceAccount; "" means none.
func (s *scene) install(account string) {
	s.t.Helper()
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	ext.Spec.Namespace = s.name
	ext.Spec.ServiceAccount.Name = account
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: s.name, Version: "1.0.0"}}
	s.create(ext)
	s.t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), ext) })
}

func (s *scene) get() *olmv1.ClusterExtension {
	s.t.Helper()
	ext := &olmv1.ClusterExtension{}
	require.NoError(s.t, cluster.Client.Get(s.t.Context(), client.ObjectKey{Name: s.name}, ext))
	return ext
}

// upgrade selects version 2.0.0.
func (s *scene) upgrade() {
	s.t.Helper()
	ext := s.get()
	before := ext.DeepCopy()
	ext.Spec.Source.Catalog.Version = "2.0.0"
	require.NoError(s.t, cluster.Client.Patch(s.t.Context(), ext, client.MergeFrom(before)))
}

// says waits until a condition of the ClusterExtension has a status and a reason, and returns its message.
func (s *scene) says(kind string, status metav1.ConditionStatus, reason string) string {
	s.t.Helper()
	message := ""
	eventually(s.t, func(c *assert.CollectT) {
		ext := s.get()
		got := meta.FindStatusCondition(ext.Status.Conditions, kind)
		if assert.NotNil(c, got) {
			assert.Equal(c, string(status)+" "+reason, string(got.Status)+" "+got.Reason, got.Message)
			assert.Equal(c, ext.Generation, got.ObservedGeneration)
			message = got.Message
		}
	})
	return message
}

// installed waits until a version is installed.
func (s *scene) installed(version string) {
	s.t.Helper()
	eventually(s.t, func(c *assert.CollectT) {
		ext := s.get()
		if assert.NotNil(c, ext.Status.Install, "%+v", ext.Status.Conditions) {
			assert.Equal(c, version, ext.Status.Install.Bundle.Version, "%+v", ext.Status.Conditions)
		}
	})
	s.says(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	s.says(olmv1.TypeAuthorized, metav1.ConditionTrue, olmv1.ReasonSucceeded)
}

// paste applies a file of the report as the cluster administrator.
func (s *scene) paste(file string) {
	s.t.Helper()
	report := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: cluster.Home, Name: clusterextension.ReportName(s.name)}
	require.NoError(s.t, cluster.Client.Get(s.t.Context(), key, report))
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(report.Data[file]), 4096)
	for n := 0; ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			require.NotZero(s.t, n, "%s of the report is empty", file)
			return
		}
		require.NoError(s.t, err)
		if obj.Object == nil {
			continue // the file begins with a comment
		}
		n++
		require.NoError(s.t, cluster.Client.Apply(s.t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("admin")))
	}
}

// identity returns the identity that the status of the ClusterExtension names.
func (s *scene) identity() scoped.Identity {
	s.t.Helper()
	if account := s.get().Spec.ServiceAccount.Name; account != "" {
		return scoped.ServiceAccountIdentity(client.ObjectKey{Namespace: s.name, Name: account})
	}
	identity, err := scoped.ExtensionIdentity(s.name)
	require.NoError(s.t, err)
	return identity
}

// requests returns all requests sent as the identity after an offset of the audit log.
func (s *scene) requests(from int64) []audit.Event {
	s.t.Helper()
	user := s.identity().Username()
	events, _, err := cluster.AuditedFrom(s.t.Context(), from, func(e audit.Event) bool {
		return e.User.Username == user || e.Impersonated != nil && e.Impersonated.Username == user
	})
	require.NoError(s.t, err)
	return events
}

// nothingWritten asserts that no request as the identity could have changed an object. RunTests verifies that the program
// writes nothing on its own either.
func (s *scene) nothingWritten(from int64) {
	s.t.Helper()
	for _, e := range s.requests(from) {
		require.False(s.t, e.IsWrite(), e.String())
	}
}

// oneRound asserts that the API server refused no request as the identity, logs how long after the grant the first object
// was written, and returns the number of requests.
func (s *scene) oneRound(from int64, granted time.Time) int {
	s.t.Helper()
	all := s.requests(from)
	for _, e := range all {
		require.NotEqual(s.t, http.StatusForbidden, e.Response.Code, e.String())
		require.NotEqual(s.t, http.StatusConflict, e.Response.Code, e.String())
	}
	first := slices.IndexFunc(all, audit.Event.Wrote)
	require.GreaterOrEqual(s.t, first, 0, "nothing was written")
	s.t.Logf("%s: %d requests; first write %s after the grant", s.identity(), len(all), all[first].Received.Sub(granted).Round(time.Millisecond))
	return len(all)
}

func (s *scene) mark() int64 {
	s.t.Helper()
	end, err := audit.End(cluster.AuditLog)
	require.NoError(s.t, err)
	return end
}

// exists reports whether the operator's Deployment exists.
func (s *scene) exists() bool {
	s.t.Helper()
	d := &unstructured.Unstructured{}
	d.SetAPIVersion("apps/v1")
	d.SetKind("Deployment")
	err := cluster.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.name, Name: s.name}, d)
	if !apierrors.IsNotFound(err) {
		require.NoError(s.t, err)
	}
	return err == nil
}

// remove deletes the ClusterExtension, and waits until everything that it installed is deleted.
func (s *scene) remove() {
	s.t.Helper()
	inventory := s.get().Status.Inventory
	require.NotEmpty(s.t, inventory)
	require.NoError(s.t, cluster.Client.Delete(s.t.Context(), s.get()))
	eventually(s.t, func(c *assert.CollectT) {
		for _, o := range inventory {
			obj := &metav1.PartialObjectMetadata{}
			mapping, err := cluster.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: o.Group, Kind: o.Kind})
			if !assert.NoError(c, err) {
				return
			}
			obj.SetGroupVersionKind(mapping.GroupVersionKind)
			err = cluster.Client.Get(s.t.Context(), client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, obj)
			assert.True(c, apierrors.IsNotFound(err), "%s %s/%s: %v", o.Kind, o.Namespace, o.Name, err)
		}
	})
}

// bind makes a subject a cluster administrator, and returns a function that removes the binding.
func (s *scene) bind(subject rbacv1.Subject) (unbind func()) {
	s.t.Helper()
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("test-%s-%s", s.name, rand.String(4))},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}, Subjects: []rbacv1.Subject{subject}}
	s.create(binding)
	return func() { require.NoError(s.t, cluster.Client.Delete(context.Background(), binding)) }
}
