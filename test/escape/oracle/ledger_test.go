package oracle

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/test/env/audit"
)

func TestALedgerContainsLateRequestsButJudgesTheirWorkloadsOnlyOnce(t *testing.T) {
	create := func(name string) audit.Event {
		e := audit.Event{Verb: "create", RequestURI: "/x", User: audit.User{Username: accountPrefix + "tenant:acct"},
			Object:   &audit.Object{Resource: "pods", Namespace: "other", Name: name},
			Returned: []byte(`{"metadata":{"namespace":"other"},"spec":{"serviceAccountName":"` + name + `"}}`)}
		e.Response.Code = http.StatusCreated
		return e
	}
	l := newLedger(audit.Identities{}, []audit.Event{create("late")}, []audit.Event{create("recent")})
	for _, name := range []string{"late", "recent"} {
		key := Key{schema.GroupResource{Resource: "pods"}, "other", name}
		require.False(t, l.onlyByControllers(key), name)
		require.False(t, l.fromHome(key, func(string) string { return "tenant" }, "other"), name)
	}
	who := map[types.NamespacedName]string{}
	require.NoError(t, l.ran(who))
	require.Contains(t, who, types.NamespacedName{Namespace: "other", Name: "recent"})
	require.Len(t, who, 1, "the last check has judged the late request's workload")
}
