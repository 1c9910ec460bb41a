package apply_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// world is a namespace in a real API server.
type world struct {
	t         *testing.T
	client    client.WithWatch
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := client.NewWithWatch(controlplane.Shared(t).Config(), client.Options{})
	require.NoError(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "apply-"}}
	require.NoError(t, c.Create(t.Context(), namespace))
	return &world{t: t, client: c, namespace: namespace.Name}
}

// configMap returns a ConfigMap with the data and the label that marks objects of the owner "us".
func (w *world) configMap(data map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"data": data}}
	obj.SetAPIVersion("v1")
	obj.SetKind("ConfigMap")
	obj.SetNamespace(w.namespace)
	obj.SetName("cm")
	obj.SetLabels(map[string]string{"owner": "us"})
	return obj
}

// us is an owner that recognizes its objects by a label. Its proofs contain the object's name.
type us struct{}

func (us) Check(live client.Object) error {
	if live.GetLabels()["owner"] != "us" {
		return errors.New("it has no label")
	}
	return nil
}

func (us) Prove(desired, _ *unstructured.Unstructured) error {
	desired.SetAnnotations(map[string]string{names.AnnotationProof: "of " + desired.GetName()})
	return nil
}

func (w *world) ensure(c client.Client, desired *unstructured.Unstructured) (apply.Result, *unstructured.Unstructured, error) {
	return apply.Ensure(w.t.Context(), c, desired, us{})
}

func (w *world) live() *unstructured.Unstructured {
	w.t.Helper()
	live, err := apply.Live(w.t.Context(), w.client, w.configMap(nil))
	require.NoError(w.t, err)
	return live
}

// writeAsOther creates the ConfigMap as another field manager, or updates it if it exists.
func (w *world) writeAsOther(labels map[string]string, data map[string]string) {
	w.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cm", Labels: labels}, Data: data}
	by := client.FieldOwner("other")
	if err := w.client.Create(w.t.Context(), cm, by); apierrors.IsAlreadyExists(err) {
		cm.SetAnnotations(w.live().GetAnnotations())
		require.NoError(w.t, w.client.Update(w.t.Context(), cm, by))
	} else {
		require.NoError(w.t, err)
	}
}

// interfering returns a client that calls between() before each apply request.
func (w *world) interfering(between func()) client.Client {
	return interceptor.NewClient(w.client, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, o ...client.ApplyOption) error {
			between()
			return c.Apply(ctx, obj, o...)
		},
	})
}

func TestEnsureWritesOnlyChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var version string
	for _, row := range []struct {
		name string
		data map[string]any
		want apply.Result
	}{
		{"creates", map[string]any{"a": "1", "b": "1"}, apply.Created},
		{"writes nothing", map[string]any{"a": "1", "b": "1"}, apply.Unchanged},
		{"updates a value", map[string]any{"a": "2", "b": "1"}, apply.Updated},
		{"removes a value", map[string]any{"a": "2"}, apply.Updated},
		{"writes nothing after a removal", map[string]any{"a": "2"}, apply.Unchanged},
	} {
		result, obj, err := w.ensure(w.client, w.configMap(row.data))
		require.NoError(t, err, row.name)
		require.Equal(t, row.want, result, row.name)
		require.Equal(t, row.data, obj.Object["data"], row.name)
		if row.want == apply.Unchanged {
			require.Equal(t, version, obj.GetResourceVersion(), row.name)
		}
		version = obj.GetResourceVersion()
	}
}

func TestEnsureKeepsFieldsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, err := w.ensure(w.client, w.configMap(map[string]any{"a": "1"}))
	require.NoError(t, err)
	w.writeAsOther(map[string]string{"owner": "us", "more": "yes"}, map[string]string{"a": "1", "b": "theirs"})

	result, _, err := w.ensure(w.client, w.configMap(map[string]any{"a": "1"}))
	require.NoError(t, err)
	require.Equal(t, apply.Unchanged, result)
	require.Equal(t, map[string]any{"a": "1", "b": "theirs"}, w.live().Object["data"])
}

// An object keeps its field manager when its mark becomes longer, so that no field has two managers (ADR 0070).
func TestEnsureReplacesAnOlderMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const mark = "s2hd2dpw6l4j5jdklh46gnyjgjjmmtq7"
	older := w.configMap(map[string]any{"a": "1", "b": "1"})
	older.SetLabels(map[string]string{"owner": "us", names.LabelLineage: mark[:16]})
	_, _, err := w.ensure(w.client, older)
	require.NoError(t, err)
	newer := w.configMap(map[string]any{"a": "2"})
	newer.SetLabels(map[string]string{"owner": "us", names.LabelLineage: mark})
	result, live, err := w.ensure(w.client, newer)
	require.NoError(t, err)
	require.Equal(t, apply.Updated, result)
	require.Equal(t, mark, live.GetLabels()[names.LabelLineage])
	require.Equal(t, map[string]any{"a": "2"}, live.Object["data"])
	require.Len(t, live.GetManagedFields(), 1)
}

func TestEnsureRefusesObjectsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.writeAsOther(nil, map[string]string{"a": "theirs"})
	before := w.live()

	_, _, err := w.ensure(w.client, w.configMap(map[string]any{"a": "1"}))
	var collision *apply.CollisionError
	require.ErrorAs(t, err, &collision)
	require.True(t, apply.IsCollision(err))
	require.EqualError(t, err, "ConfigMap "+w.namespace+"/cm already exists and was not created by this install: it has no label; it was not changed: delete it if nothing else needs it")
	require.Equal(t, before.GetResourceVersion(), w.live().GetResourceVersion())
}

func TestAFieldOfAnotherManagerIsACollision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, err := w.ensure(w.client, w.configMap(map[string]any{"a": "1"}))
	require.NoError(t, err)
	w.writeAsOther(map[string]string{"owner": "us"}, map[string]string{"a": "theirs"})

	_, _, err = w.ensure(w.client, w.configMap(map[string]any{"a": "1"}))
	require.True(t, apierrors.IsConflict(err))
	require.True(t, apply.IsCollision(err))
	require.Equal(t, map[string]any{"a": "theirs"}, w.live().Object["data"])
}

func TestAConcurrentChangeIsAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, err := w.ensure(w.client, w.configMap(map[string]any{"a": "1"}))
	require.NoError(t, err)
	for _, row := range []struct {
		name    string
		between func()
	}{
		{"edited", func() { w.writeAsOther(map[string]string{"owner": "us", "n": "1"}, map[string]string{"a": "1"}) }},
		{"recreated", func() {
			require.NoError(t, w.client.Delete(t.Context(), w.live()))
			w.writeAsOther(nil, map[string]string{"x": "theirs"})
		}},
	} {
		_, _, err := w.ensure(w.interfering(row.between), w.configMap(map[string]any{"a": "2"}))
		require.True(t, apierrors.IsConflict(err), "%s: %v", row.name, err)
		require.False(t, apply.IsCollision(err), "%s: %v", row.name, err)
		require.NotContains(t, w.live().Object["data"], "a2")
	}
	require.Equal(t, map[string]any{"x": "theirs"}, w.live().Object["data"])
}

func TestAnObjectThatWasCreatedConcurrentlyIsNotChanged(t *testing.T) {
	t.Parallel()
	applied := func(w *world, manager string) {
		theirs := w.configMap(map[string]any{"b": "theirs"})
		theirs.SetLabels(nil)
		require.NoError(t, w.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(theirs), client.FieldOwner(manager)))
	}
	created := func(w *world, manager string) {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "cm"}, Data: map[string]string{"b": "theirs"}}
		require.NoError(t, w.client.Create(t.Context(), cm, client.FieldOwner(manager)))
	}
	for name, write := range map[string]func(w *world, manager string){"applied": applied, "created": created} {
		for _, manager := range []string{"other", names.FieldManager} {
			t.Run(name+" by "+manager, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				var theirs *unstructured.Unstructured
				once := sync.OnceFunc(func() {
					write(w, manager)
					theirs = w.live()
				})
				_, _, err := w.ensure(w.interfering(once), w.configMap(map[string]any{"a": "1"}))
				require.True(t, apierrors.IsConflict(err), "%v", err)
				require.Equal(t, theirs, w.live())
				_, _, err = w.ensure(w.client, w.configMap(map[string]any{"a": "1"}))
				require.ErrorContains(t, err, "already exists and was not created by this install: it has no label", "the object is not adopted later")
			})
		}
	}
}

// An apply that changes nothing would succeed if the API server did not compare the versions.
func TestAnIdenticalObjectThatWasCreatedConcurrentlyIsAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	once := sync.OnceFunc(func() {
		_, _, err := w.ensure(w.client, w.configMap(map[string]any{"a": "1"}))
		require.NoError(t, err)
	})
	_, _, err := w.ensure(w.interfering(once), w.configMap(map[string]any{"a": "1"}))
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.False(t, apply.IsCollision(err), "%v", err)
}

// late is an owner whose first proof of an object does not match the object's creation time.
type late struct{ us }

func (late) Prove(desired, live *unstructured.Unstructured) error {
	text := "first"
	if live != nil {
		text = "at " + live.GetCreationTimestamp().UTC().String()
	}
	desired.SetAnnotations(map[string]string{names.AnnotationProof: text})
	return nil
}

func TestSignsAgainIfTheCreationTookTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	result, made, err := apply.Ensure(t.Context(), w.client, w.configMap(map[string]any{"a": "1"}), late{})
	require.NoError(t, err)
	require.Equal(t, apply.Created, result)
	require.Equal(t, "at "+made.GetCreationTimestamp().UTC().String(), w.live().GetAnnotations()[names.AnnotationProof])

	dry, _, err := apply.Ensure(t.Context(), client.NewDryRunClient(w.client), w.other("dry"), late{})
	require.NoError(t, err, "a dry run does not sign again")
	require.Equal(t, apply.Created, dry)
}

// Controllers write the status of a new object before the second proof arrives.
func TestSignsAgainWhatOthersHaveChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	requests := 0
	interfering := w.interfering(func() {
		if requests++; requests == 2 {
			require.NoError(t, w.client.Patch(t.Context(), w.live(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`))))
			cancel() // the program stops
		}
	})
	_, made, err := apply.Ensure(ctx, interfering, w.configMap(map[string]any{"a": "1"}), late{})
	require.NoError(t, err)
	require.Equal(t, 2, requests)
	require.Equal(t, "at "+made.GetCreationTimestamp().UTC().String(), w.live().GetAnnotations()[names.AnnotationProof])
	require.Equal(t, "yes", w.live().GetLabels()["seen"])
}

func (w *world) other(name string) *unstructured.Unstructured {
	obj := w.configMap(map[string]any{"a": "1"})
	obj.SetName(name)
	return obj
}

func TestOverwritesOnlyTheSameObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, read, err := w.ensure(w.client, w.configMap(map[string]any{"a": "1"}))
	require.NoError(t, err)
	w.writeAsOther(map[string]string{"owner": "us"}, map[string]string{"a": "1", "b": "theirs"})
	require.NoError(t, apply.Overwrite(t.Context(), w.client, read, w.configMap(map[string]any{"a": "2"}), us{}), "the object has changed since it was read")
	require.Equal(t, map[string]any{"a": "2", "b": "theirs"}, w.live().Object["data"])

	require.NoError(t, w.client.Delete(t.Context(), w.live()))
	w.writeAsOther(nil, map[string]string{"b": "theirs"})
	require.Error(t, apply.Overwrite(t.Context(), w.client, read, w.configMap(map[string]any{"a": "3"}), us{}))
	require.Equal(t, map[string]any{"b": "theirs"}, w.live().Object["data"])
	require.NoError(t, w.client.Delete(t.Context(), w.live()))
	require.Error(t, apply.Overwrite(t.Context(), w.client, read, w.configMap(map[string]any{"a": "3"}), us{}))
	require.Nil(t, w.live())
}

// Two lineages find that the object does not exist, and both apply it: the second lineage must not change the object
// of the first.
func TestAConcurrentCreationByAnotherLineageIsACollision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := func(lineage string) *unstructured.Unstructured {
		obj := w.configMap(map[string]any{"a": "1"})
		obj.SetLabels(map[string]string{"owner": "us", names.LabelLineage: lineage})
		return obj
	}
	c := w.interfering(func() {
		_, _, err := w.ensure(w.client, of("first"))
		require.NoError(t, err)
	})
	_, _, err := w.ensure(c, of("second"))
	require.True(t, apply.IsCollision(err), "%v", err)
	require.Equal(t, "first", w.live().GetLabels()[names.LabelLineage])
}

func TestRefusesAnObjectThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	held := w.configMap(map[string]any{"a": "1"})
	held.SetFinalizers([]string{"example.com/hold"})
	_, live, err := w.ensure(w.client, held)
	require.NoError(t, err)
	require.NoError(t, w.client.Delete(t.Context(), live))

	_, _, err = w.ensure(w.client, w.configMap(map[string]any{"a": "1"}))
	require.EqualError(t, err, "ConfigMap "+w.namespace+"/cm is being deleted")
	require.False(t, apply.IsCollision(err))
}

func TestDescribe(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetKind("ClusterRole")
	obj.SetName("x")
	require.Equal(t, "ClusterRole x", apply.Describe(obj))
	obj.SetNamespace("ns")
	require.Equal(t, "ClusterRole ns/x", apply.Describe(obj))
}
