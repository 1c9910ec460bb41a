package differential

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/differential/rows"
)

// outcomes maps the table's verdicts to the outcomes of this package.
var outcomes = map[string]string{
	rows.Covered: "covered", rows.ByEscalate: "covered by escalate", rows.ByBind: "covered by bind",
	rows.Missing: "missing", rows.Unresolved: "unresolved", rows.Invalid: "invalid",
}

func sixtyNineRows(t *testing.T, s server) {
	a := s.newAccount(t, "rows", "t1", "t2")
	asked := 0
	for _, row := range rows.All() {
		if row.Offline != "" {
			continue
		}
		t.Run(fmt.Sprint(row.Number), func(t *testing.T) { a.ask(t, row) })
		asked++
	}
	t.Logf("%d questions, no differences", asked)
}

// ask compares the verdicts of the engine and of the API server on a row.
func (a *account) ask(t *testing.T, row rows.Row) {
	defer func(outer *testing.T) { a.t = outer }(a.t)
	a.t = t
	for _, obj := range row.Held {
		a.create(obj.(client.Object).DeepCopyObject().(client.Object))
	}
	defer func() { // the next row's settle waits until the authorizer has observed the deletions
		for _, obj := range row.Held {
			require.NoError(t, a.admin.Delete(t.Context(), obj.(client.Object)))
		}
	}()
	l := a.settle()
	var verdict rbac.Verdict
	for i := 0; i < len(row.Writes) && verdict.Covered(); i++ {
		w := write{object: typed(row.Writes[i])}
		verdict = w.verdict(t, l, a.subject())
		require.NoError(t, agrees(verdict, w.send(t, a.self)))
	}
	require.Equal(t, outcomes[row.Verdict], outcome(verdict), "%+v", verdict)
}

// typed returns the object with its kind set, which server-side apply requires.
func typed(obj any) client.Object {
	switch o := obj.(type) {
	case *rbacv1.Role:
		o.TypeMeta = typeMeta(kindRole)
	case *rbacv1.ClusterRole:
		o.TypeMeta = typeMeta(kindClusterRole)
	case *rbacv1.RoleBinding:
		o.TypeMeta = typeMeta(kindRoleBinding)
	case *rbacv1.ClusterRoleBinding:
		o.TypeMeta = typeMeta(kindClusterRoleBinding)
	}
	return obj.(client.Object)
}
