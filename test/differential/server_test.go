package differential

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/controlplane"
)

const (
	// defaultWrites is the number of writes in an ordinary test run; `make differential` uses more.
	defaultWrites = 300
	// Each account makes this many write attempts, and as many again after its permissions have changed.
	writesPerRound, roundsPerAccount = 15, 2
)

// server is a cluster with its administrator's client.
type server struct {
	config *rest.Config
	admin  client.Client
}

func TestTheEngineAgreesWithTheAPIServer(t *testing.T) {
	t.Parallel()
	s := server{config: controlplane.Start(t).Config()}
	var err error
	s.admin, err = client.New(s.config, client.Options{})
	require.NoError(t, err)
	t.Run("rows", func(t *testing.T) { sixtyNineRows(t, s) })
	t.Run("random", func(t *testing.T) { randomWrites(t, s) })
}

func randomWrites(t *testing.T, s server) {
	writes, seed := fromEnvironment(t, "DIFFERENTIAL_WRITES", defaultWrites), fromEnvironment(t, "DIFFERENTIAL_SEED", 1)
	sum := map[string]int{}
	for i := range (writes + writesPerRound*roundsPerAccount - 1) / (writesPerRound * roundsPerAccount) {
		id := fmt.Sprint("d", i)
		a := s.newAccount(t, id, id+"-a", id+"-b")
		a.grant(newDice(seed, i))
		for range roundsPerAccount {
			l := a.settle()
			for range writesPerRound {
				w := a.newWrite(l)
				verdict := w.verdict(t, l, a.subject())
				err := agrees(verdict, w.send(t, a.self))
				require.NoError(t, err, "seed %d, account %d, %s\n%+v\ngranted %+v", seed, i, w, w.object, l.Permissions(a.subject(), w.object.GetNamespace()).Rules)
				sum[fmt.Sprint(w, ": ", outcome(verdict))]++
			}
			a.disturb()
		}
	}
	total := 0
	for _, line := range slices.Sorted(maps.Keys(sum)) {
		t.Logf("%6d %s", sum[line], line)
		total += sum[line]
	}
	t.Logf("seed %d, no differences in %d writes", seed, total)
	require.GreaterOrEqual(t, total, writes)
}

// write is an account's attempt to create or change a role or a binding.
type write struct {
	object client.Object
	// over is true if the object already exists. If it is a ClusterRole, live is the existing one.
	over bool
	live *rbacv1.ClusterRole
	// post means that the object is created with POST, without a name in the URL, rather than with server-side apply.
	post bool
}

func (w write) String() string {
	how := "apply "
	switch {
	case w.post:
		how = "POST "
	case w.over:
		how = "apply over "
	}
	return how + w.object.GetObjectKind().GroupVersionKind().Kind
}

// wanted returns rules that the account has in this or another scope, or slightly different rules.
func (a *account) wanted(l rbac.Listers, namespace string) []rbacv1.PolicyRule {
	if a.d.oneIn(3) {
		return a.d.partOf(anything, a.rules)
	}
	return a.d.partOf(anything, inOrder(l.Permissions(a.subject(), namespace).Rules))
}

func (a *account) newWrite(l rbac.Listers) write {
	w := write{over: a.d.oneIn(2)}
	name := "new"
	if w.over {
		name = "live"
	} else {
		w.post = a.d.oneIn(3)
	}
	namespace := a.namespaces()[a.d.IntN(2)]
	switch a.d.IntN(4) {
	case 0:
		w.object = role(namespace, name, a.wanted(l, namespace)...)
	case 1:
		w.object, w.live = a.clusterRoleWrite(name, a.wanted(l, rbac.ClusterScope), w.over)
	case 2:
		ref := a.roleRef([]string{kindRole, kindClusterRole}[a.d.IntN(2)])
		if w.over {
			ref = roleRef(kindRole, "live") // the roleRef of a binding is immutable
		}
		w.object = roleBinding(namespace, name, ref, a.randomSubjects()...)
	case 3:
		ref := a.roleRef(kindClusterRole)
		if w.over {
			ref = roleRef(kindClusterRole, a.id+"-live")
		} else if a.d.oneIn(10) {
			ref = roleRef(kindRole, "r0")
		}
		w.object = clusterRoleBinding(a.id+"-"+name, ref, a.randomSubjects()...)
	}
	// The API server does not check a write that changes nothing.
	w.object.SetLabels(map[string]string{"changed": "yes"})
	return w
}

// randomSubjects returns random subjects, which are sometimes invalid.
func (a *account) randomSubjects() []rbacv1.Subject {
	if !a.d.oneIn(6) {
		return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.home, Name: "x"}}
	}
	return []rbacv1.Subject{{
		Kind:      a.d.one([]string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind, "Robot"}),
		APIGroup:  a.d.one([]string{"", rbacv1.GroupName, "x"}),
		Name:      a.d.one([]string{"x", "X y", ""}),
		Namespace: a.d.one([]string{"", a.home}),
	}}
}

// clusterRoleWrite returns a ClusterRole to write and the existing one, if any. The write sometimes adds or removes an
// aggregationRule.
func (a *account) clusterRoleWrite(name string, rules []rbacv1.PolicyRule, over bool) (object, live *rbacv1.ClusterRole) {
	if over && a.d.oneIn(3) {
		name = "livegatherer"
	}
	object = a.newClusterRole(name, rules...)
	if a.d.oneIn(4) {
		object.AggregationRule = a.newGatherer("x", a.label).AggregationRule
		if a.d.oneIn(5) {
			object.AggregationRule = &rbacv1.AggregationRule{}
		}
	}
	if over {
		live = &rbacv1.ClusterRole{}
		require.NoError(a.t, a.admin.Get(a.t.Context(), client.ObjectKeyFromObject(object), live))
	}
	return object, live
}

// verdict returns the engine's answer.
func (w write) verdict(t *testing.T, l rbac.Listers, who rbac.Subject) rbac.Verdict {
	t.Helper()
	var grant rbac.Grant
	switch obj := w.object.(type) {
	case *rbacv1.Role:
		grant = rbac.RoleGrant(&rbacv1.ClusterRole{ObjectMeta: obj.ObjectMeta, Rules: obj.Rules}, nil)
	case *rbacv1.ClusterRole:
		grant = rbac.RoleGrant(obj, w.live)
	case *rbacv1.RoleBinding:
		grant = bindingGrant(t, l, rbacv1.ClusterRoleBinding{ObjectMeta: obj.ObjectMeta, RoleRef: obj.RoleRef, Subjects: obj.Subjects})
	case *rbacv1.ClusterRoleBinding:
		grant = bindingGrant(t, l, *obj)
	}
	if w.post && slices.Equal(grant.Alternative.Verbs, []string{"escalate"}) {
		grant.Alternative.ResourceNames = []string{""}
	}
	return grant.Check(l.Permissions(who, w.object.GetNamespace()))
}

func bindingGrant(t *testing.T, l rbac.Listers, binding rbacv1.ClusterRoleBinding) rbac.Grant {
	t.Helper()
	grant, err := rbac.BindingGrant(&binding, l.RulesOf)
	require.NoError(t, err)
	return grant
}

// send sends the write as a dry run.
func (w write) send(t *testing.T, self client.Client) error {
	t.Helper()
	if w.post {
		return self.Create(t.Context(), asUnstructured(t, w.object), client.DryRunAll)
	}
	return self.Apply(t.Context(), applied(t, w.object), client.FieldOwner(fieldManager), client.DryRunAll)
}

func outcome(v rbac.Verdict) string {
	switch {
	case v.Invalid != nil:
		return "invalid"
	case v.Via != "":
		return "covered by " + v.Via
	case v.Covered():
		return "covered"
	case v.Unresolved:
		return "unresolved"
	}
	return "missing"
}

// refusals are the API server's status codes for writes that the engine refuses. An invalid object may be refused for
// another reason before its permissions are checked.
var refusals = map[string][]int32{
	"invalid":    {http.StatusUnprocessableEntity, http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest},
	"missing":    {http.StatusForbidden},
	"unresolved": {http.StatusNotFound},
}

// agrees returns an error if the API server's response differs from the verdict.
func agrees(v rbac.Verdict, refused error) error {
	//nolint:errorlint // the refusal does not cause the difference
	differs := fmt.Errorf("the engine returned %s (%+v), but the API server %v", outcome(v), v, refused)
	codes := refusals[outcome(v)]
	if refused == nil {
		if len(codes) > 0 {
			return differs
		}
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(refused, &status) || !slices.Contains(codes, status.Status().Code) {
		return differs
	}
	escalation := strings.Contains(refused.Error(), "not currently held") || strings.Contains(refused.Error(), "must have cluster-admin privileges")
	if outcome(v) == "missing" && !escalation {
		return differs
	}
	return nil
}
