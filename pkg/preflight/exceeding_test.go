package preflight

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
)

// The API server decides whether a binding exceeds an identity, with as few questions as possible, each of them once.
func TestTheAPIServerConfirmsWhatExceeds(t *testing.T) {
	t.Parallel()
	binding := func(name string) excess.Object {
		return excess.Object{
			Object: &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}, Scope: "ns",
			Missing:     []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets", "pods", "nodes"}}},
			Alternative: rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, ResourceNames: []string{name}, Verbs: []string{"bind"}},
		}
	}
	large := binding("large")
	large.Unevaluated = true
	for name, row := range map[string]struct {
		objs    []excess.Object
		allowed []string
		want    []string
		asked   int
		broken  string
	}{
		"all is denied":                {objs: []excess.Object{binding("a"), binding("b")}, want: []string{"RoleBinding ns/a", "RoleBinding ns/b"}, asked: 3},
		"one role may be bound":        {objs: []excess.Object{binding("a"), binding("b")}, allowed: []string{"bind a"}, want: []string{"RoleBinding ns/b"}, asked: 3},
		"all is allowed":               {objs: []excess.Object{binding("a")}, allowed: []string{"get secrets", "get pods", "get nodes"}, asked: 5},
		"the last one is denied":       {objs: []excess.Object{binding("a")}, allowed: []string{"get secrets", "get pods"}, want: []string{"RoleBinding ns/a"}, asked: 5},
		"more than Remit evaluates":    {objs: []excess.Object{large}, allowed: []string{"get secrets", "get pods", "get nodes"}, want: []string{"RoleBinding ns/large"}, asked: 1},
		"the API server cannot decide": {objs: []excess.Object{binding("a")}, broken: "get secrets"},
		"nothing":                      {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var asked []string
			c := &Confirmer{Ask: func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
				question := atom.Verbs[0] + " " + append(slices.Clone(atom.ResourceNames), atom.Resources[0])[0]
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, question)
				if question == row.broken {
					return false, errors.New("no answer")
				}
				return slices.Contains(row.allowed, question), nil
			}}
			for range 2 {
				found, err := c.Exceeding(t.Context(), "asker", bounded, row.objs)
				if row.broken != "" {
					require.ErrorContains(t, err, "cannot determine whether ServiceAccount ns/installer may write RoleBinding ns/a: no answer")
					continue
				}
				require.NoError(t, err)
				var got []string
				for _, o := range found {
					got = append(got, apply.Describe(o.Object))
				}
				require.Equal(t, row.want, got)
				require.Len(t, asked, row.asked, asked)
			}
		})
	}
}
