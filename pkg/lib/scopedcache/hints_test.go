package scopedcache

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hinted returns the namespaces for which rechecks are scheduled, and forgets them.
func (w *rbacWatcher) hinted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for p := range w.pending {
		if p.delay == hintDelays[0] {
			out = append(out, p.namespace)
		}
	}
	clear(w.pending)
	return out
}

func bindingTo(kind string, subject rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "b"}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "r"}}
}

// A revocation is noticed only after a recheck, and a recheck follows each change of RBAC that may be one.
func TestWhichChangesOfRBACAreHints(t *testing.T) {
	t.Parallel()
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "home", Name: "remit"}
	group := rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts"}
	meta := metav1.ObjectMeta{Namespace: "x", Name: "r"}
	get := []rbacv1.PolicyRule{{Verbs: []string{"get"}}}
	for name, tc := range map[string]struct {
		bound, before, after client.Object
		want                 []string
	}{
		"a binding":                      {nil, nil, bindingTo("Role", account), []string{"x"}},
		"a deleted binding":              {bindingTo("Role", account), bindingTo("Role", account), nil, []string{"x"}},
		"a binding of a group":           {nil, nil, bindingTo("Role", group), []string{"x"}},
		"a binding of the user":          {nil, nil, bindingTo("Role", rbacv1.Subject{Kind: rbacv1.UserKind, Name: "system:serviceaccount:home:remit"}), []string{"x"}},
		"a binding without the identity": {bindingTo("Role", account), bindingTo("Role", account), bindingTo("Role", rbacv1.Subject{Kind: rbacv1.UserKind, Name: "another"}), []string{"x"}},
		"a binding of another account":   {nil, nil, bindingTo("Role", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "x", Name: "remit"}), nil},
		"a binding of an account in its own namespace": {nil, nil, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "b"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "remit"}}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}}, []string{"home"}},
		"a binding for the cluster": {nil, nil, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Subjects: []rbacv1.Subject{account}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}}, []string{""}},
		"a role":                    {bindingTo("Role", account), &rbacv1.Role{ObjectMeta: meta, Rules: get}, &rbacv1.Role{ObjectMeta: meta}, []string{"x"}},
		"a deleted role":            {bindingTo("Role", account), &rbacv1.Role{ObjectMeta: meta, Rules: get}, nil, []string{"x"}},
		"the labels of a role": {bindingTo("Role", account), &rbacv1.Role{ObjectMeta: meta},
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "r", Labels: map[string]string{"a": "b"}}}, nil},
		"a role of another namespace": {bindingTo("Role", account), nil, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "y", Name: "r"}}, nil},
		"a role without a binding":    {nil, nil, &rbacv1.Role{ObjectMeta: meta}, nil},
		"a role for the cluster": {bindingTo("ClusterRole", account), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: get},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}}, []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &rbacWatcher{recheck: func(string) {}, user: "system:serviceaccount:home:remit", groups: []string{"system:serviceaccounts"},
				bound: map[roleKey]map[string]int{}, pending: map[pendingHint]bool{}}
			if tc.bound != nil {
				w.changed(nil, tc.bound)
				require.NotEmpty(t, w.hinted())
			}
			w.changed(tc.before, tc.after)
			require.Equal(t, tc.want, w.hinted())
		})
	}
}

// A watch of RBAC that was interrupted may have missed a revocation.
func TestAnInterruptedWatchOfRBACIsAHint(t *testing.T) {
	t.Parallel()
	w := &rbacWatcher{recheck: func(string) {}, pending: map[pendingHint]bool{}}
	notify := w.caughtUp()
	for _, row := range []struct {
		kind  client.Object
		state State
		want  []string
	}{
		{&rbacv1.Role{}, Live, nil},
		{&rbacv1.Role{}, Backoff, nil},
		{&rbacv1.ClusterRole{}, Live, nil},
		{&rbacv1.Role{}, Live, []string{""}},
		{&rbacv1.Role{}, Live, nil},
	} {
		notify(OwnerRef{}, ClaimStatus{Claim: Claim{Kind: row.kind}, State: row.state})
		require.Equal(t, row.want, w.hinted(), "%T %s", row.kind, row.state)
	}
}

func TestARecheckReachesEachWatchOfItsNamespace(t *testing.T) {
	t.Parallel()
	for namespace, want := range map[string][]Scope{
		"x": {Namespace("x")},
		"y": {Object("y", "a")},
		"z": nil,
		"":  {Namespace("x"), Object("y", "a")},
	} {
		f := newFake(t)
		scopes := []Scope{Namespace("x"), Object("y", "a")}
		for _, scope := range scopes {
			require.False(t, f.claim("o", scope).recheckNext)
		}
		f.Recheck(namespace)
		var got []Scope
		for _, scope := range scopes {
			if f.feed(scope).recheckNext {
				got = append(got, scope)
			}
		}
		require.Equal(t, want, got, "namespace %q", namespace)
	}
}
