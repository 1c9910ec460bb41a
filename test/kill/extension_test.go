package kill

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/env/registry"
)

// extensionObjects is the number of objects of version 1.0.0 of the packages in these tests.
const extensionObjects = 5

func TestAnExtensionSurvivesAKillAfterEachWriteOfItsInstall(t *testing.T) {
	w := newExtensionWorld(t, "installed")
	n := sweepExtensions(t, func(t *testing.T, n int) (outcome, bool) {
		s := w.extension(t, n)
		shot := w.gate.arm(n, anyRequest, w.program.Kill)
		from := s.mark()
		s.create()
		return s.ends(shot, "1.0.0", from)
	})
	require.Greater(t, n, extensionObjects)
	t.Logf("killed after each of %d writes", n)
}

func TestAnExtensionSurvivesAKillAfterEachWriteOfItsUpgrade(t *testing.T) {
	w := newExtensionWorld(t, "upgraded")
	n := sweepExtensions(t, func(t *testing.T, n int) (outcome, bool) {
		s := w.extension(t, n)
		s.create()
		eventually(t, func(c *assert.CollectT) { s.installed(c, "1.0.0") })
		shot := w.gate.arm(n, anyRequest, w.program.Kill)
		from := s.mark()
		s.upgrade()
		return s.ends(shot, "2.0.0", from)
	})
	require.Greater(t, n, extensionObjects)
	t.Logf("killed after each of %d writes", n)
}

// The content of what is installed is kept, so what was deleted while the program did not run is restored without the catalog
// (docs/adr/0073).
func TestAnExtensionIsRestoredAfterAKillWithoutItsCatalog(t *testing.T) {
	w := newExtensionWorld(t, "uncataloged")
	s := w.extension(t, 1)
	s.create()
	eventually(t, func(c *assert.CollectT) { s.installed(c, "1.0.0") })
	require.NoError(t, cluster.Client.Delete(t.Context(), &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: w.name}}))
	w.program.Kill()
	was := s.deployment()
	require.NoError(t, cluster.Client.Delete(t.Context(), was))
	w.start(t)
	eventually(t, func(c *assert.CollectT) {
		is := s.deployment()
		if assert.NoError(c, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(is), is)) {
			assert.NotEqual(c, was.UID, is.UID)
		}
		available := meta.FindStatusCondition(s.get().Status.Conditions, olmv1.TypeAvailable)
		if assert.NotNil(c, available) {
			assert.Equal(c, olmv1.ReasonSucceeded, available.Reason, available.Message)
		}
		progressing := meta.FindStatusCondition(s.get().Status.Conditions, olmv1.TypeProgressing)
		assert.Contains(c, progressing.Message, "the installed version 1.0.0 is kept")
	})
	s.remove()
}

// deployment returns the Deployment of the extension, which may have been deleted.
func (e *extension) deployment() *appsv1.Deployment {
	e.t.Helper()
	list := &appsv1.DeploymentList{}
	require.NoError(e.t, cluster.Client.List(e.t.Context(), list, client.InNamespace(e.name)))
	if len(list.Items) == 0 {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: "none"}}
	}
	return &list.Items[0]
}

// sweepExtensions is sweep for ClusterExtensions. It asserts that all runs have the outcome of the last one, in which the
// program was not killed.
func sweepExtensions(t *testing.T, once func(t *testing.T, n int) (outcome, bool)) int {
	t.Helper()
	var all []outcome
	kills := sweep(t, func(t *testing.T, n int) bool {
		o, killed := once(t, n)
		all = append(all, o)
		return killed
	})
	require.Len(t, all, kills+1, "a run failed")
	for i, o := range all[:kills] {
		require.Equal(t, all[kills], o, "after write %d", i+1)
	}
	return kills
}

// outcome is the result of a run, without the parts that depend on the names of the ClusterExtension and its objects.
type outcome struct {
	// status is the ClusterExtension's status without the inventory, as JSON. objects are the objects of the inventory.
	status  string
	objects []string
	// changes are the objects that were created and deleted.
	changes []string
}

// extension is a ClusterExtension in its own namespace, with the same name as its package.
type extension struct {
	*world
	t    *testing.T
	name string
	user string
}

// newExtensionWorld starts the extension program and creates a ClusterCatalog with a package for each run of a sweep.
// Version 2.0.0 adds a permission, so that its Role replaces that of version 1.0.0.
func newExtensionWorld(t *testing.T, name string, args ...string) *world {
	t.Helper()
	images := registry.New(t)
	w := newWorld(t, name, names.ServiceAccountExtension, append(args,
		"--registry-plain-http="+images.Host, "--cache-directory="+t.TempDir(), "--catalog-content-bind-address=127.0.0.1:0")...)
	var releases []string
	brings := env.Brings{}
	for n := 1; n <= maxWrites; n++ {
		v1, v2 := w.pkg(n)+".v1.0.0", w.pkg(n)+".v2.0.0"
		releases = append(releases, v1+" stable", v2+" stable replaces="+v1+" reads=secrets")
		for _, v := range []string{v1, v2} {
			brings[v] = env.CRD("things", w.pkg(n)+".remit.dev", "Thing")
		}
	}
	cluster.ServeCatalog(t, images, name, env.ReleasesWith(brings, releases...))
	return w
}

func (w *world) pkg(n int) string { return fmt.Sprintf("%s-%02d", w.name, n) }

// extension creates the namespace, the enrollment and the grant of the nth run's ClusterExtension.
func (w *world) extension(t *testing.T, n int) *extension {
	t.Helper()
	identity, err := scoped.ExtensionIdentity(w.pkg(n))
	require.NoError(t, err)
	e := &extension{world: w, t: t, name: w.pkg(n), user: identity.Username()}
	objs := append(scoped.ExtensionEnrollment(identity, cluster.Home, scoped.ImpersonationConstrained),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.name}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test-" + e.name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{identity.Subject()}})
	for _, obj := range objs {
		require.NoError(t, cluster.Client.Create(t.Context(), obj))
	}
	return e
}

// An object at which the program ends again and again has to wait. Without the journal, the program would begin with it each time.
func TestAnExtensionThatEndsTheProgramDoesNotStopOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal")
	w := newExtensionWorld(t, "poison", "--journal="+file)
	poison, other := w.extension(t, 1), w.extension(t, 2)
	for n := range 2 {
		shot := w.gate.arm(1, w.asIdentity, w.program.Kill)
		if n == 0 {
			poison.create()
		} else {
			w.start(t)
		}
		select {
		case <-shot.fired:
		case <-t.Context().Done():
			require.Fail(t, "the program was not killed")
		}
		w.gate.disarm()
	}
	// As if it had ended the program three more times, the wait is an hour, so that the result does not depend on the machine.
	records, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Regexp(t, "suspect 1 [01] ", string(records))
	require.Contains(t, string(records), "working 0 ")
	records = regexp.MustCompile("suspect 1 [01] ").ReplaceAll(records, []byte("suspect 4 4 "))
	require.NoError(t, os.WriteFile(file, records, 0o600))
	w.start(t)
	other.create()
	eventually(t, func(c *assert.CollectT) {
		other.installed(c, "1.0.0")
		list := &corev1.EventList{}
		assert.NoError(c, cluster.Client.List(t.Context(), list))
		assert.True(c, slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == "ClusterExtension" && e.InvolvedObject.Name == poison.name && e.Reason == "Suspended" &&
				strings.HasPrefix(e.Message, "Remit's program ended 5 times while it worked on objects of this namespace")
		}))
	})
	require.Nil(t, poison.get().Status.Install)
	w.program.Kill()
	require.NoError(t, os.Remove(file))
	w.start(t)
	eventually(t, func(c *assert.CollectT) { poison.installed(c, "1.0.0") })
	poison.remove()
	other.remove()
}

func (e *extension) create() {
	e.t.Helper()
	obj := env.NewClusterExtension(e.name, e.name)
	obj.Spec.Source.Catalog.Version = "1.0.0"
	require.NoError(e.t, cluster.Client.Create(e.t.Context(), obj))
}

// upgrade selects version 2.0.0.
func (e *extension) upgrade() {
	e.t.Helper()
	obj := e.get()
	before := obj.DeepCopy()
	obj.Spec.Source.Catalog.Version = "2.0.0"
	require.NoError(e.t, cluster.Client.Patch(e.t.Context(), obj, client.MergeFrom(before)))
}

func (e *extension) get() *olmv1.ClusterExtension {
	e.t.Helper()
	obj := &olmv1.ClusterExtension{}
	require.NoError(e.t, cluster.Client.Get(e.t.Context(), client.ObjectKey{Name: e.name}, obj))
	return obj
}

func (e *extension) mark() int64 {
	e.t.Helper()
	end, err := audit.End(cluster.AuditLog)
	require.NoError(e.t, err)
	return end
}

// installed asserts that a version is installed and that the ClusterExtension's conditions report it.
func (e *extension) installed(c *assert.CollectT, version string) {
	obj := e.get()
	if assert.NotNil(c, obj.Status.Install, "%+v", obj.Status.Conditions) {
		assert.Equal(c, version, obj.Status.Install.Bundle.Version, "%+v", obj.Status.Conditions)
	}
	for _, kind := range []string{olmv1.TypeProgressing, olmv1.TypeAvailable} {
		condition := meta.FindStatusCondition(obj.Status.Conditions, kind)
		if assert.NotNil(c, condition) {
			assert.Equal(c, olmv1.ReasonSucceeded, condition.Reason, condition.Message)
			assert.Equal(c, obj.Generation, condition.ObservedGeneration)
		}
	}
}

// ends waits until the version is installed and restarts the program if it was killed. It then removes the ClusterExtension,
// and returns the outcome and whether the program was killed.
func (e *extension) ends(s *shot, version string, from int64) (outcome, bool) {
	e.t.Helper()
	killed := e.firedOr(e.t, s, func(c *assert.CollectT) { e.installed(c, version) })
	if killed {
		e.start(e.t)
		eventually(e.t, func(c *assert.CollectT) { e.installed(c, version) })
	}
	events, _, err := cluster.AuditedFrom(e.t.Context(), from, func(event audit.Event) bool {
		return event.Impersonated != nil && event.Impersonated.Username == e.user
	})
	require.NoError(e.t, err)
	for _, event := range events {
		require.NotEqual(e.t, http.StatusConflict, event.Response.Code, event.String())
	}
	o := e.outcome()
	for _, change := range madeOnce(e.t, events) {
		o.changes = append(o.changes, e.neutral(change))
	}
	e.remove()
	return o, killed
}

// outcome reads the status and the objects.
func (e *extension) outcome() outcome {
	e.t.Helper()
	obj := e.get()
	status := obj.Status.DeepCopy()
	status.Inventory = nil
	slices.SortFunc(status.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	text, err := json.Marshal(status)
	require.NoError(e.t, err)
	o := outcome{status: e.neutral(string(text))}
	for _, item := range obj.Status.Inventory {
		got := e.object(item)
		require.NoError(e.t, cluster.Client.Get(e.t.Context(), client.ObjectKeyFromObject(got), got))
		for _, field := range [][]string{
			{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "creationTimestamp"}, {"metadata", "managedFields"},
			{"metadata", "annotations", names.AnnotationProof}, {"status"},
		} {
			unstructured.RemoveNestedField(got.Object, field...)
		}
		text, err := json.Marshal(got.Object)
		require.NoError(e.t, err)
		o.objects = append(o.objects, strings.ReplaceAll(e.neutral(string(text)), string(obj.UID), "UID"))
	}
	slices.Sort(o.objects)
	return o
}

func (e *extension) object(item olmv1.InventoryObject) *unstructured.Unstructured {
	e.t.Helper()
	mapping, err := cluster.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: item.Group, Kind: item.Kind})
	require.NoError(e.t, err)
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(mapping.GroupVersionKind)
	obj.SetNamespace(item.Namespace)
	obj.SetName(item.Name)
	return obj
}

// hash matches the hashes in labels and in the names of roles and bindings, which depend on the name of the
// ClusterExtension.
var hash = regexp.MustCompile(`([-"])[a-z2-7]{16}(?:[a-z2-7]{16})?\b`)

// neutral replaces the name of the ClusterExtension, and all hashes, with placeholders.
func (e *extension) neutral(text string) string {
	return hash.ReplaceAllString(strings.ReplaceAll(text, e.name, "NAME"), "${1}HASH")
}

// remove deletes the ClusterExtension, so that the program does not install it again at its next start, and waits until all
// of its objects are deleted. Only the API server can finish the deletion of a CustomResourceDefinition that Remit has begun.
func (e *extension) remove() {
	e.t.Helper()
	obj := e.get()
	require.NoError(e.t, cluster.Client.Delete(e.t.Context(), obj))
	nudged := time.Now()
	eventually(e.t, func(c *assert.CollectT) {
		for _, item := range obj.Status.Inventory {
			left := e.object(item)
			err := cluster.Client.Get(e.t.Context(), client.ObjectKeyFromObject(left), left)
			assert.True(c, apierrors.IsNotFound(err), "%s %s: %v", item.Kind, item.Name, err)
			if item.Kind == "CustomResourceDefinition" && err == nil && left.GetDeletionTimestamp() != nil && time.Since(nudged) > 3*time.Second {
				nudged = time.Now()
				assert.NoError(c, env.Nudge(e.t.Context(), cluster.Client, left))
			}
		}
	})
}
