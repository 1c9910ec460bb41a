package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// stored stores the objects of a world that is left to OLM, and returns a signer and the plan for the namespace "own".
func stored(t *testing.T) (*recorded.Server, *signer, *plan) {
	t.Helper()
	g := newGiven(t)
	g.groups["own"][0].Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	account := &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: with(g.owned("op"), label("team", "a"))}
	g.objects = append(g.objects, account)
	g.csv().SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind("ClusterServiceVersion"))
	server := recorded.New(t, nil, &g.groups["own"][0], g.csv(), g.objects[0], account)
	for _, obj := range append(g.objects, g.csv()) {
		gvk := obj.GetObjectKind().GroupVersionKind()
		require.NoError(t, server.Client("reader").Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
		obj.GetObjectKind().SetGroupVersionKind(gvk)
	}
	return server, &signer{client: server.Client("me"), keys: g.keys, home: "remit"}, g.judge("own")
}

func TestANamespaceIsLeftToOLMUntilEverythingIsSigned(t *testing.T) {
	const group = "me: patch OperatorGroup own/group"
	server, s, p := stored(t)
	p.groups[0].Annotations = nil // it was read before OLM was named
	server.Put(&p.groups[0])
	require.NoError(t, s.adopt(t.Context(), p))
	require.Equal(t, []string{
		"me: create ConfigMap remit/remit-adopted-own", group,
		"me: patch ClusterServiceVersion own/op.v1", "me: patch Deployment own/op", "me: patch ServiceAccount own/op", group,
	}, server.Writes())
	og := &operatorsv1.OperatorGroup{}
	require.NoError(t, server.Client("reader").Get(t.Context(), client.ObjectKey{Namespace: "own", Name: "group"}, og))
	require.Empty(t, og.Annotations)
	account := &corev1.ServiceAccount{}
	require.NoError(t, server.Client("reader").Get(t.Context(), client.ObjectKey{Namespace: "own", Name: "op"}, account))
	require.NoError(t, newGiven(t).owner().Check(account))
}

func TestANamespaceThatIsRefusedIsNotWritten(t *testing.T) {
	server, s, p := stored(t)
	p.refuse("x")
	require.NoError(t, s.adopt(t.Context(), p))
	require.Empty(t, server.Writes())
}

// Without the preconditions, the command could add a proof to an object that another user has replaced or changed.
func TestAnObjectThatWasReplacedOrChangedIsNotSigned(t *testing.T) {
	for name, edit := range map[string]func(*corev1.ServiceAccount){
		"changed":  func(sa *corev1.ServiceAccount) { sa.OwnerReferences = nil },
		"replaced": func(sa *corev1.ServiceAccount) { sa.UID = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			server, s, p := stored(t)
			recorded.Edit(server, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "op"}}, edit)
			require.ErrorContains(t, s.adopt(t.Context(), p), "patch ServiceAccount own/op")
			account := &corev1.ServiceAccount{}
			require.NoError(t, server.Client("reader").Get(t.Context(), client.ObjectKey{Namespace: "own", Name: "op"}, account))
			require.NotContains(t, account.Annotations, names.AnnotationProof)
			og := &operatorsv1.OperatorGroup{}
			require.NoError(t, server.Client("reader").Get(t.Context(), client.ObjectKey{Namespace: "own", Name: "group"}, og))
			require.Equal(t, names.ManagedByOLM, og.Annotations[names.AnnotationManagedBy])
		})
	}
}

// sent records the last patch, and answers reads with an object.
type sent struct {
	client.Client
	live metav1.PartialObjectMetadata
	body map[string]map[string]any
}

func (s *sent) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.live.DeepCopyInto(obj.(*metav1.PartialObjectMetadata))
	return nil
}

func (s *sent) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	s.body = nil
	return json.Unmarshal(data, &s.body)
}

func TestEveryPatchNamesWhatWasRead(t *testing.T) {
	c := &sent{}
	s := &signer{client: c}
	obj := of("ServiceAccount", metav1.ObjectMeta{Namespace: "own", Name: "op", UID: "uid", ResourceVersion: "7"})
	value := "b"
	require.NoError(t, s.patch(t.Context(), obj.DeepCopy(), "me", map[string]*string{"a": &value}, nil))
	require.Equal(t, map[string]map[string]any{"metadata": {"uid": "uid", "resourceVersion": "7", "labels": map[string]any{"a": "b"}}}, c.body)
	require.NoError(t, s.setManagedFields(t.Context(), obj.DeepCopy(), nil))
	require.Equal(t, map[string]map[string]any{"metadata": {"uid": "uid", "resourceVersion": "7", "managedFields": nil}}, c.body)

	og := of("OperatorGroup", metav1.ObjectMeta{Namespace: "own", Name: "group", UID: "uid", ResourceVersion: "7"})
	c.live.UID, c.live.ResourceVersion = "another", "8"
	require.NoError(t, s.manage(t.Context(), []client.Object{og}, names.ManagedByOLM))
	require.Equal(t, "uid", c.body["metadata"]["uid"], "the API server refuses the request, because another object has replaced the OperatorGroup")
}

func TestRetriesOnlyIfTheVerdictIsTheSame(t *testing.T) {
	const along = names.AnnotationInstalledAlongsidePrefix + "a"
	owner := newGiven(t).owner()
	read := with(metaOf("", "things"), annotated(along, "own/op.v1", "example.com/a", "b"), label("team", "a"))
	read.Generation, read.ResourceVersion = 3, "7"
	for name, row := range map[string]struct {
		edit func(*metav1.ObjectMeta)
		want bool
	}{
		"nothing":                {func(*metav1.ObjectMeta) {}, true},
		"an unrelated":           {annotated(along, "own/op.v1", "example.com/a", "c"), true},
		"the annotations":        {annotated(along, "own/op.v1", along+"b", "other/op.v1"), false},
		"no annotation":          {annotated("example.com/a", "b"), false},
		"the spec":               {func(m *metav1.ObjectMeta) { m.Generation++ }, false},
		"a kind without a spec":  {func(m *metav1.ObjectMeta) { m.Generation = 0 }, false},
		"the owner":              {ownedBy(reference(newGiven(t).csv())), false},
		"a label":                {label("team", "b"), false},
		"the object":             {func(m *metav1.ObjectMeta) { m.UID = "another" }, false},
		"the object, which ends": {deleting, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &sent{live: *of("CustomResourceDefinition", with(read, row.edit))}
			c.live.ResourceVersion = "8"
			obj := of("CustomResourceDefinition", read)
			require.Equal(t, row.want, (&signer{client: c}).refresh(t.Context(), &signing{object: obj, owner: owner}))
			require.Equal(t, map[bool]string{true: "8", false: "7"}[row.want], obj.ResourceVersion)
		})
	}
	t.Run("a kind without a generation on both sides", func(t *testing.T) {
		bare := with(read, func(m *metav1.ObjectMeta) { m.Generation = 0 })
		c := &sent{live: *of("Service", bare)}
		require.False(t, (&signer{client: c}).refresh(t.Context(), &signing{object: of("Service", bare), owner: owner}))
		proofs.Mark(&c.live, owner)
		require.True(t, (&signer{client: c}).refresh(t.Context(), &signing{object: of("Service", bare), owner: owner}), "it has the proof already")
	})
}

func TestUndoRestoresOnlyWhatTheAdoptionChanged(t *testing.T) {
	server, s, p := stored(t)
	require.NoError(t, s.adopt(t.Context(), p))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "op"}}
	recorded.Edit(server, account, func(sa *corev1.ServiceAccount) { sa.Labels[names.LabelManaged] = "changed" })
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "op.v1"}}
	recorded.Edit(server, csv, func(c *operatorsv1alpha1.ClusterServiceVersion) { c.UID = "another" })
	_ = server.Writes()

	out, err := s.undo(t.Context(), "own", false)
	require.NoError(t, err)
	require.Empty(t, server.Writes(), "a dry run")
	got := map[string]Object{}
	for _, obj := range out.Objects {
		got[obj.Kind] = obj
	}
	require.Equal(t, Gone, got["ClusterServiceVersion"].Verdict)
	require.Contains(t, got["ServiceAccount"].Why, "was changed after the adoption")

	_, err = s.undo(t.Context(), "own", true)
	require.NoError(t, err)
	wrote := server.Writes()
	require.Equal(t, "me: patch OperatorGroup own/group", wrote[0], "OLM manages the namespace before the first proof is removed")
	require.Equal(t, "me: delete ConfigMap remit/remit-adopted-own", wrote[len(wrote)-1])
	require.NotContains(t, wrote, "me: patch ClusterServiceVersion own/op.v1")
	server.Get(account)
	require.Equal(t, map[string]string{"team": "a", names.LabelManaged: "changed"}, account.Labels)
	require.NotContains(t, account.Annotations, names.AnnotationProof)
}

// Tenants can cause failures in their namespaces: an invalid selector, or more objects than fit into a record.
func TestAFailureAffectsOnlyItsNamespace(t *testing.T) {
	server, s, p := stored(t)
	bad := *p
	bad.namespace = "bad"
	server.Refuse("me: create ConfigMap remit/remit-adopted-bad", errors.New("too large"))
	err := s.adoptAll(t.Context(), []*plan{&bad, p})
	require.ErrorContains(t, err, "namespace bad: ")
	require.NotContains(t, err.Error(), "namespace own")
	require.Equal(t, "remit", p.report.ManagedBy)

	server.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: recordPrefix + "bad", Labels: map[string]string{recordLabel: "true"}}})
	o := &Options{Scope: cli.Scope{RemitNamespace: "remit"}, Yes: true}
	report, err := o.undo(t.Context(), s.client, "")
	require.ErrorContains(t, err, "namespace bad: ")
	require.NotContains(t, err.Error(), "namespace own")
	require.Len(t, report.Namespaces, 1)
	require.Equal(t, names.ManagedByOLM, report.Namespaces[0].ManagedBy)
}

func TestUnknownTargetsAffectOnlyTheirNamespace(t *testing.T) {
	group := func(namespace string, edit func(*operatorsv1.OperatorGroup)) *operatorsv1.OperatorGroup {
		og := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group"}}
		edit(og)
		return og
	}
	bad := group("bad", func(og *operatorsv1.OperatorGroup) {
		og.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Foo"}}}
	})
	own := group("own", func(og *operatorsv1.OperatorGroup) { og.Spec.TargetNamespaces = []string{"own"} })
	server := recorded.New(t, nil, bad, own)
	w := &world{namespaces: []string{"bad", "own"}, groups: map[string][]operatorsv1.OperatorGroup{"bad": {*bad}, "own": {*own}},
		targets: map[string][]string{}, untargeted: map[string]error{}}
	require.NoError(t, w.gatherTargets(t.Context(), server.Client("me"), ""))
	require.ErrorContains(t, w.untargeted["bad"], "Foo")
	require.Equal(t, []string{"own"}, w.targets["own"])
	w.csvs = map[string][]operatorsv1alpha1.ClusterServiceVersion{"bad": {version("bad", "op.v1")}}
	require.Contains(t, w.judge("bad").report.Refused[0], "the target namespaces are unknown")
}

func TestOnlyTheFirstRecordDescribesTheObjectBeforeTheAdoption(t *testing.T) {
	before, after := "before", "after"
	r := &record{}
	r.add(recordedObject{Kind: "Service", Name: "a", UID: "1", Labels: map[string]change{"l": {Before: &before}}})
	r.add(recordedObject{Kind: "Service", Name: "a", UID: "1", Labels: map[string]change{"l": {Before: &after}}})
	r.add(recordedObject{Kind: "Service", Name: "a", UID: "2"})
	require.Len(t, r.Objects, 2)
	require.Equal(t, &before, r.Objects[0].Labels["l"].Before)
	require.Equal(t, types.UID("2"), r.Objects[1].UID)
}

// A proof depends on the time at which the object was created, so that it does not fit a later object.
func TestAProofDoesNotFitAnotherObject(t *testing.T) {
	g := newGiven(t)
	obj := of("Service", g.owned("op"))
	signature, err := (&signing{object: obj, owner: g.owner()}).proof()
	require.NoError(t, err)
	signed := of("Service", with(obj.ObjectMeta, annotated(names.AnnotationProof, signature), label(names.LabelLineage, g.owner().Mark())))
	require.NoError(t, g.owner().Check(signed))
	later := of("Service", with(signed.ObjectMeta, created(signed.CreationTimestamp.Add(time.Hour))))
	require.Error(t, g.owner().Check(later))
}

// Without operators, the number of OperatorGroups does not matter, but each of them leaves the namespace to OLM.
func TestTakesOverEveryGroupOfANamespace(t *testing.T) {
	g := newGiven(t)
	left := g.groups["own"][0]
	left.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	second := *left.DeepCopy()
	second.Name, second.UID = "second", "own-second"
	g.groups["own"], g.csvs["own"], g.objects = []operatorsv1.OperatorGroup{left, second}, nil, nil
	server := recorded.New(t, nil, &left, &second)
	p := g.judge("own")
	require.Empty(t, p.report.Refused)
	require.NoError(t, (&signer{client: server.Client("me"), keys: g.keys, home: "remit"}).adopt(t.Context(), p))
	for _, name := range []string{"group", "second"} {
		og := &operatorsv1.OperatorGroup{}
		require.NoError(t, server.Client("reader").Get(t.Context(), client.ObjectKey{Namespace: "own", Name: name}, og))
		require.Empty(t, og.Annotations, name)
	}
}
