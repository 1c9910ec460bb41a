package execute

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// undeclared returns the API server's error about unknown fields.
func undeclared(paths ...string) error {
	text := strings.Join(paths, ": field not declared in schema\n  ") + ": field not declared in schema"
	if len(paths) > 1 {
		text = "errors:\n  " + text
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "failed to create typed patch object (a/b; v1, Kind=X): " + text}}
}

func TestFieldsAreRemovedWithinLimits(t *testing.T) {
	object := func(fields int) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"kind": "X"}}
		for i := range fields {
			obj.Object[fmt.Sprint("f", i)] = "x"
		}
		return obj
	}
	obj, sent := object(MaxPrunings+1), object(MaxPrunings+1)
	p := Pruned{}
	require.False(t, p.remove(obj, sent, nil))
	require.False(t, p.remove(obj, sent, undeclared(".absent")), "an unknown path is not retried")
	p = Pruned{}
	for i := range MaxPrunings {
		require.True(t, p.remove(obj, sent, undeclared(fmt.Sprint(".f", i))))
	}
	require.False(t, p.remove(obj, sent, undeclared(fmt.Sprint(".f", MaxPrunings))))
	require.Equal(t, obj, sent)
	for range MaxAllPrunings/MaxPrunings - 1 {
		other := object(MaxPrunings)
		for i := range MaxPrunings {
			require.True(t, p.remove(other, other.DeepCopy(), undeclared(fmt.Sprint(".f", i))))
		}
	}
	other := object(1)
	require.False(t, p.remove(other, other.DeepCopy(), undeclared(".f0")))
	require.Len(t, p.Of(obj), MaxPrunings)
	require.Empty(t, p.Of(sent))

	require.False(t, Pruned(nil).remove(other, other.DeepCopy(), undeclared(".f0")))
}

// The API server reports a field of a list separately for each element, and each report counts toward the limit.
func TestAllReportedFieldsCount(t *testing.T) {
	p := Pruned{}
	obj := &unstructured.Unstructured{Object: map[string]any{"kind": "X"}}
	var list []any
	var more, most []string
	for i := range MaxPruned {
		list = append(list, map[string]any{"more": "x", "most": "x"})
		more, most = append(more, fmt.Sprintf(".list[%d].more", i)), append(most, fmt.Sprintf(".list[%d].most", i))
	}
	obj.Object["list"] = list
	require.True(t, p.remove(obj, obj.DeepCopy(), undeclared(more...)))
	require.Equal(t, []string{".list[].more"}, p.Of(obj))
	require.NotContains(t, fmt.Sprint(obj.Object), "more")
	require.False(t, p.remove(obj, obj.DeepCopy(), undeclared(most[0])))
}

func TestFieldsOfRestrictingObjectsAreNotRemoved(t *testing.T) {
	for kind, never := range map[schema.GroupVersionKind]bool{
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}:               true,
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}:        true,
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}:        true,
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}: true,
		{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}:              true,
		{Group: "networking.example.com", Version: "v1", Kind: "NetworkPolicy"}:         false,
		{Version: "v1", Kind: "Service"}:                                                false,
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"form": "x"}}
		obj.SetGroupVersionKind(kind)
		require.Equal(t, !never, Pruned{}.remove(obj, obj.DeepCopy(), undeclared(".form")), kind)
		require.Equal(t, never, obj.Object["form"] != nil, kind)
	}
}
