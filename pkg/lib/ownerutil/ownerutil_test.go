package ownerutil

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestMarksAreValidLabels(t *testing.T) {
	long := strings.Repeat("a.", 120) + "z"
	for _, o := range []Owner{
		{Lineage: Lineage{Package: "p", Namespace: "n"}, CSV: "p.v1"},
		{Lineage: Lineage{Package: long, Namespace: "n"}, CSV: long},
		{Lineage: Lineage{Package: "Über operator", Namespace: "n"}, CSV: "p.v1"},
		{Lineage: Lineage{Package: "-p", Namespace: "n"}, CSV: strings.Repeat("a", 63)},
		{Lineage: Lineage{Package: strings.Repeat("a", 62), Namespace: "n"}, CSV: strings.Repeat("a", 64)},
	} {
		for key, value := range o.Labels() {
			require.Empty(t, validation.IsQualifiedName(key), "%s", key)
			require.Empty(t, validation.IsValidLabelValue(value), "%s", value)
		}
	}
}

func TestComponentLabelFollowsTheContractIfPossible(t *testing.T) {
	require.Equal(t, "operators.coreos.com/etcd.team-a", Lineage{Package: "etcd", Namespace: "team-a"}.ComponentLabel())
	require.Equal(t, "operators.coreos.com/"+strings.Repeat("a", 62), Lineage{Package: strings.Repeat("a", 62), Namespace: "n"}.ComponentLabel())
	odd := Lineage{Package: "a:b", Namespace: "n"}
	require.Equal(t, "operators.coreos.com/"+odd.ShortMark(), odd.ComponentLabel())
}

func TestMarksDistinguishLineages(t *testing.T) {
	mine := Lineage{Package: "p", Namespace: "n"}
	obj := &metav1.ObjectMeta{Labels: Owner{Lineage: mine, CSV: "p.v2"}.Labels()}
	require.True(t, mine.Marks(obj))
	for _, other := range []Lineage{
		{Package: "p", Namespace: "m"}, {Package: "q", Namespace: "n"}, {Package: "pn"}, {Namespace: "pn"}, {Package: "p", Namespace: "n", Direct: true},
	} {
		require.False(t, other.Marks(obj), "%v", other)
	}
	require.False(t, mine.Marks(&metav1.ObjectMeta{}))
	require.False(t, mine.Marks(&metav1.ObjectMeta{Labels: map[string]string{names.LabelOwner: "p.v2"}}), "the contract's labels prove nothing")
}

// known is a Proofs that accepts all objects of one holder and no others.
type known string

func (k known) Check(_ client.Object, holder string) error {
	if holder != string(k) {
		return errors.New("it has no proof")
	}
	return nil
}

func (k known) CheckSince(obj client.Object, holder string, since time.Time) error {
	if obj.GetCreationTimestamp().Time.Before(since) {
		return errors.New("it is older")
	}
	return k.Check(obj, holder)
}

func (k known) Sign(*unstructured.Unstructured, string, *unstructured.Unstructured) error { return nil }

func TestOwnsRequiresTheMarkAndTheProof(t *testing.T) {
	owner := Owner{Lineage: Lineage{Package: "p", Namespace: "n"}, CSV: "p.v2"}
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: owner.Labels()}}
	require.False(t, owner.Owns(obj), "an owner without Proofs owns nothing")
	require.Error(t, owner.Prove(&unstructured.Unstructured{}, nil))

	owner.Proofs = known("another")
	require.EqualError(t, owner.Check(obj), `it has the lineage label of package "p" in namespace "n", but it has no proof`)
	owner.Proofs = known(owner.Mark())
	require.True(t, owner.Owns(obj))
	require.False(t, owner.Owns(&corev1.ConfigMap{}), "a proof without the label is not sufficient")
	owner.Since = time.Now()
	require.EqualError(t, owner.Check(obj), `it has the lineage label of package "p" in namespace "n", but it is older`)
	obj.Namespace = "n"
	require.NoError(t, owner.Check(obj), "a namespaced object is deleted with its namespace, so its age is ignored")
}

func TestOwnerOfAClusterExtension(t *testing.T) {
	owner := Owner{Lineage: Lineage{Package: "p", Namespace: "n", Extension: strings.Repeat("x", 100)}, CSV: "p.v1", UID: "u"}
	for key, value := range owner.Labels() {
		require.Empty(t, validation.IsQualifiedName(key), "%s", key)
		require.Empty(t, validation.IsValidLabelValue(value), "%s", value)
		require.NotContains(t, []string{names.LabelOwner, names.LabelOwnerKind, names.LabelOwnerNamespace, names.LabelManaged}, key, "a label of CSVs")
	}
	ref := owner.Reference()
	require.Equal(t, "olm.operatorframework.io/v1 ClusterExtension "+owner.Extension, ref.APIVersion+" "+ref.Kind+" "+ref.Name)
	require.Equal(t, []metav1.OwnerReference{ref}, owner.Outside("namespace"))
	require.Empty(t, Owner{Lineage: owner.Lineage}.Outside("namespace"), "the ClusterExtension's UID is not known")

	owner.Proofs = known(owner.Mark())
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Labels: owner.Labels()}}
	require.NoError(t, owner.Check(obj))
	owner.Since = time.Now()
	require.ErrorContains(t, owner.Check(obj), "it has the lineage label of ClusterExtension", "objects of an earlier ClusterExtension may remain in the namespace")

	kept := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Labels: owner.Labels()}}
	require.NoError(t, owner.Check(kept), "an earlier ClusterExtension created it")
	kept.OwnerReferences = []metav1.OwnerReference{Reference("v1", "Namespace", "n", "n"), owner.Reference()}
	require.NoError(t, owner.Check(kept))
	earlier := Owner{Lineage: owner.Lineage, UID: "earlier"}
	kept.OwnerReferences = append(kept.OwnerReferences, earlier.Reference())
	require.Error(t, owner.Check(kept), "it is deleted together with the earlier ClusterExtension")
	untyped := &unstructured.Unstructured{}
	untyped.SetLabels(owner.Labels())
	require.Error(t, owner.Check(untyped))
	untyped.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	require.NoError(t, owner.Check(untyped))
}

// A namespace or package with a chosen name must not have the mark of a ClusterExtension.
func TestMarksOfClusterExtensionsAreUnique(t *testing.T) {
	mark := Lineage{Package: "p", Namespace: "n", Extension: "e"}.Mark()
	require.Equal(t, mark, Lineage{Package: "p2", Namespace: "n2", Extension: "e"}.Mark())
	for _, other := range []Lineage{
		{Package: "p", Namespace: "n"}, {Package: "extension", Namespace: "e"}, {Package: "e", Direct: true}, {Extension: "e2"}, {Package: "p", Namespace: "n", Direct: true},
	} {
		require.NotEqual(t, mark, other.Mark(), "%v", other)
	}
}

func TestLabelValuesOfLongNamesDiffer(t *testing.T) {
	a, b := strings.Repeat("a", 70)+"1", strings.Repeat("a", 70)+"2"
	require.NotEqual(t, LabelValue(a), LabelValue(b))
	require.Len(t, LabelValue(a), 63)
	require.Equal(t, "short", LabelValue("short"))
}

func TestReferenceDoesNotBlockDeletion(t *testing.T) {
	ref := Owner{CSV: "p.v1", UID: "u"}.Reference()
	require.False(t, *ref.BlockOwnerDeletion)
	require.False(t, *ref.Controller)
	require.Equal(t, "p.v1", ref.Name)
}

func TestHashDistinguishesParts(t *testing.T) {
	require.Regexp(t, "^[a-z2-7]{16}$", Hash("a", "b"))
	require.Regexp(t, "^[a-z2-7]{32}$", Commitment("a", "b"))
	require.NotEqual(t, Hash("a", "b"), Hash("ab"))
	require.NotEqual(t, Hash("a", ""), Hash("a"))
	require.NotEqual(t, Hash("a", "b"), Hash("b", "a"))
}

// Any user can put labels of many lineages on an object.
func TestTheWorkForLabelsOfManyLineagesIsLimited(t *testing.T) {
	labeled := func(n int) *corev1.ServiceAccount {
		obj := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Labels: map[string]string{}}}
		for i := range n {
			obj.Labels[Lineage{Package: fmt.Sprint("p", i), Namespace: "n"}.ComponentLabel()] = ""
		}
		return obj
	}
	work := func(obj client.Object) float64 {
		return testing.AllocsPerRun(3, func() { OwnerIn(obj, "n", time.Time{}, nil) })
	}
	require.Less(t, work(labeled(10*maxCandidates)), 2*work(labeled(maxCandidates)))
}

// Marks commit to the whole hash. Objects that were written before have the first half, which stays valid until they are next
// written (ADR 0070).
func TestOlderObjectsHaveShorterMarks(t *testing.T) {
	owner := Owner{Lineage: Lineage{Package: "p", Namespace: "n"}, CSV: "p.v2"}
	require.Len(t, owner.Mark(), 32)
	require.Equal(t, Hash("p", "n"), owner.ShortMark(), "the mark of earlier versions of Remit")
	older := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{names.LabelLineage: owner.ShortMark()}}}
	newer := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: owner.Labels()}}
	for obj, holder := range map[*corev1.ConfigMap]string{older: owner.ShortMark(), newer: owner.Mark()} {
		owner.Proofs = known(holder)
		require.True(t, owner.Owns(obj))
		options := (&client.ListOptions{}).ApplyOptions([]client.ListOption{owner.Marked()})
		require.True(t, options.LabelSelector.Matches(labels.Set(obj.Labels)))
	}
	owner.Proofs = known(owner.ShortMark())
	require.False(t, owner.Owns(newer), "a proof for half of the mark does not prove the whole")
	owner.Proofs = known(owner.Mark())
	require.False(t, owner.Owns(older))

	for _, label := range []string{"", owner.Mark()[:31], owner.ShortMark() + "aaaaaaaaaaaaaaaa", owner.ShortMark()[:15]} {
		require.False(t, owner.IsMark(label), label)
		require.False(t, (&client.ListOptions{}).ApplyOptions([]client.ListOption{owner.Marked()}).LabelSelector.Matches(labels.Set{names.LabelLineage: label}))
	}
}
