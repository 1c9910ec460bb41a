package scoped

import (
	"fmt"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestConcerned(t *testing.T) {
	boss := types.NamespacedName{Namespace: "remit", Name: "boss"}
	with := func(name string, edit func(*operatorsv1.OperatorGroup)) client.Object {
		og := group(name, "acct")
		edit(og)
		return og
	}
	selecting := func(labels map[string]string) func(*operatorsv1.OperatorGroup) {
		return func(og *operatorsv1.OperatorGroup) { og.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels} }
	}
	groups := []client.Object{
		group("all", "acct"),
		group("default", ""),
		with("elsewhere", func(og *operatorsv1.OperatorGroup) { og.Namespace = "other" }),
		with("default-elsewhere", func(og *operatorsv1.OperatorGroup) { og.Namespace, og.Spec.ServiceAccountName = "other", "" }),
		with("listing", func(og *operatorsv1.OperatorGroup) {
			og.Spec.TargetNamespaces, og.Spec.ServiceAccountName = []string{"a", "b"}, "second"
		}),
		with("selecting", selecting(map[string]string{"team": "x"})),
		with("selecting-all", selecting(nil)),
	}
	lookup := Lookup{Reader: reader(t, groups...), Default: Default{Account: boss, Namespaces: []string{"ns"}}}
	namespace := func(name, team string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
	}
	ending := namespace("c", "x")
	ending.DeletionTimestamp = &metav1.Time{}
	for _, row := range []struct {
		name          string
		before, after client.Object
		want          []string
	}{
		{"an account is created", nil, serviceAccount("ns", "acct"), []string{"all", "selecting", "selecting-all"}},
		{"another account is created", nil, serviceAccount("ns", "second"), []string{"listing"}},
		{"an account that no OperatorGroup names is created", nil, serviceAccount("ns", "third"), nil},
		{"an account with the same name is created in another namespace", nil, serviceAccount("other", "acct"), []string{"elsewhere"}},
		{"an account is deleted", serviceAccount("other", "acct"), nil, []string{"elsewhere"}},
		{"an account changes", serviceAccount("ns", "acct"), serviceAccount("ns", "acct"), nil},
		{"the default account is created", nil, serviceAccount("remit", "boss"), []string{"default"}},
		{"a listed namespace is created", nil, namespace("a", ""), []string{"listing"}},
		{"a listed namespace changes", namespace("a", ""), namespace("a", "y"), nil},
		{"a listed namespace is deleted: webhooks must not delay the deletion", namespace("a", ""), nil, []string{"listing"}},
		{"deletion of an OperatorGroup's namespace begins", namespace("ns", ""), func() client.Object {
			n := namespace("ns", "")
			n.DeletionTimestamp = &metav1.Time{}
			return n
		}(), []string{"all", "default", "listing", "selecting", "selecting-all"}},
		{"a selected namespace is created", nil, namespace("c", "x"), []string{"selecting"}},
		{"a namespace starts to match", namespace("c", "y"), namespace("c", "x"), []string{"selecting"}},
		{"a namespace stops matching", namespace("c", "x"), namespace("c", "y"), []string{"selecting"}},
		{"a namespace still matches", namespace("c", "x"), namespace("c", "x"), nil},
		{"deletion of a selected namespace begins", namespace("c", "x"), ending, []string{"selecting"}},
		{"a selected namespace is removed", ending, nil, nil},
		{"a namespace that no OperatorGroup lists", nil, namespace("d", ""), nil},
		{"another kind", nil, &rbacv1.Role{}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			found, err := lookup.Concerned(t.Context(), row.before, row.after)
			require.NoError(t, err)
			var got []string
			for i := range found {
				got = append(got, found[i].Name)
			}
			require.ElementsMatch(t, row.want, got)
		})
	}
}

// Anyone who may write OperatorGroups could otherwise keep the programs busy whenever a Namespace changes.
func TestLargeSelectorsAreNotEvaluated(t *testing.T) {
	og := group("og", "acct")
	values := make([]string, MaxSelector-1)
	for i := range values {
		values[i] = fmt.Sprint("v", i)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "v1"}}}
	og.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: values}}}
	require.True(t, selects(og, namespace))
	og.Spec.Selector.MatchLabels = map[string]string{"a": "v1"}
	require.False(t, selects(og, namespace))
	_, err := Lookup{Reader: reader(t, namespace)}.matching(t.Context(), og)
	require.ErrorContains(t, err, "spec.selector has more than 500 labels, expressions and values")
}
