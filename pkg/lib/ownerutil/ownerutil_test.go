package ownerutil

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestEveryMarkIsAValidLabel(t *testing.T) {
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

func TestTheComponentLabelIsThatOfTheContractWhereItCanBe(t *testing.T) {
	require.Equal(t, "operators.coreos.com/etcd.team-a", Lineage{"etcd", "team-a"}.ComponentLabel())
	require.Equal(t, "operators.coreos.com/"+strings.Repeat("a", 62), Lineage{strings.Repeat("a", 62), "n"}.ComponentLabel())
	odd := Lineage{"a:b", "n"}
	require.Equal(t, "operators.coreos.com/"+odd.Mark(), odd.ComponentLabel())
}

func TestOwnsTellsLineagesApart(t *testing.T) {
	mine := Lineage{Package: "p", Namespace: "n"}
	obj := &metav1.ObjectMeta{Labels: Owner{Lineage: mine, CSV: "p.v2"}.Labels()}
	require.True(t, mine.Owns(obj))
	for _, other := range []Lineage{{"p", "m"}, {"q", "n"}, {"pn", ""}, {"", "pn"}} {
		require.False(t, other.Owns(obj), "%v", other)
	}
	require.False(t, mine.Owns(&metav1.ObjectMeta{}))
	require.False(t, mine.Owns(&metav1.ObjectMeta{Labels: map[string]string{names.LabelOwner: "p.v2"}}), "the contract's labels are hints")
}

func TestLongNamesStayApartAsLabelValues(t *testing.T) {
	a, b := strings.Repeat("a", 70)+"1", strings.Repeat("a", 70)+"2"
	require.NotEqual(t, LabelValue(a), LabelValue(b))
	require.Len(t, LabelValue(a), 63)
	require.Equal(t, "short", LabelValue("short"))
}

func TestTheReferenceBlocksNothing(t *testing.T) {
	ref := Owner{CSV: "p.v1", UID: "u"}.Reference()
	require.False(t, *ref.BlockOwnerDeletion)
	require.False(t, *ref.Controller)
	require.Equal(t, "p.v1", ref.Name)
}

func TestHashTellsPartsApart(t *testing.T) {
	require.Regexp(t, "^[a-z2-7]{16}$", Hash("a", "b"))
	require.NotEqual(t, Hash("a", "b"), Hash("ab"))
	require.NotEqual(t, Hash("a", ""), Hash("a"))
	require.NotEqual(t, Hash("a", "b"), Hash("b", "a"))
}
