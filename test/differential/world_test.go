package differential

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// The protocol of controlplane/differential. Unexported fields are not sent.
type (
	world struct {
		Roles               []*rbacv1.Role
		RoleBindings        []*rbacv1.RoleBinding
		ClusterRoles        []*rbacv1.ClusterRole
		ClusterRoleBindings []*rbacv1.ClusterRoleBinding
		Questions           []question
	}
	question struct {
		User      string
		Groups    []string
		Namespace string
		Rules     []rbacv1.PolicyRule
		Requests  []request

		verdict rbac.Verdict
		granted []rbacv1.PolicyRule
	}
	request struct {
		Verb, Group, Resource, Subresource, Name, Namespace string
		Path                                                string
		URL                                                 bool

		// allowed is the engine's answer.
		allowed bool
	}
)

var namespaces = []string{"t1", "t2", rbac.ClusterScope}

// extension is the synthetic user of a ClusterExtension.
var extension = scoped.Identity{Extension: "demo"}

// users are the users named in questions, and subjects are the subjects of bindings. Most of them are t1/acct.
var (
	acct  = rbac.ServiceAccount("t1", "acct")
	users = []rbac.Subject{
		acct, acct, acct, rbac.ServiceAccount("t2", "acct"), rbac.ServiceAccount("t1", "other"), {User: acct.User},
		{User: "alice", Groups: []string{"devs", "system:authenticated"}}, {User: "acct"}, {User: "system:serviceaccount::acct"}, {},
		rbac.SubjectOf(extension),
	}
	subjects = []rbacv1.Subject{
		{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"},
		{Kind: rbacv1.ServiceAccountKind, Name: "acct"},
		{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:t1"},
		{Kind: rbacv1.UserKind, Name: acct.User},
		{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts"},
		{Kind: rbacv1.GroupKind, Name: "system:authenticated"},
		{Kind: rbacv1.ServiceAccountKind, Namespace: "t2", Name: "acct"},
		{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "other"},
		{Kind: rbacv1.UserKind, Name: "alice"},
		{Kind: rbacv1.GroupKind, Name: "devs"},
		{Kind: rbacv1.GroupKind, Name: "alice"},
		{Kind: rbacv1.UserKind, Name: "devs"},
		{Kind: rbacv1.UserKind, Name: "acct"},
		{Kind: rbacv1.GroupKind, Name: acct.User},
		{Kind: rbacv1.ServiceAccountKind, Namespace: "t1"},
		{Kind: "Robot", Name: "acct"},
		{},
		extension.Subject(),
		{Kind: rbacv1.GroupKind, Name: names.GroupExtensions},
	}
)

// world uses few names, so that most bindings refer to an existing role and some do not.
func (d dice) world(tb testing.TB) world {
	var w world
	named := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("r", d.IntN(4))}
	}
	roles, clusterRoles := map[string]bool{}, map[string]bool{}
	for range 6 {
		meta := named(namespaces[d.IntN(2)])
		if key := meta.Namespace + meta.Name; !roles[key] {
			roles[key] = true
			w.Roles = append(w.Roles, &rbacv1.Role{ObjectMeta: meta, Rules: d.rules(anything, 3)})
		}
		if meta = named(""); !clusterRoles[meta.Name] {
			clusterRoles[meta.Name] = true
			w.ClusterRoles = append(w.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: d.rules(anything, 3)})
		}
	}
	for i := range 2 + d.IntN(7) {
		w.RoleBindings = append(w.RoleBindings, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[d.IntN(2)], Name: fmt.Sprint("b", i)}, RoleRef: d.roleRef("Role", "ClusterRole"), Subjects: d.subjects(),
		})
	}
	for i := range d.IntN(4) {
		w.ClusterRoleBindings = append(w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i)}, RoleRef: d.roleRef("ClusterRole", "ClusterRole"), Subjects: d.subjects(),
		})
	}
	listers := w.listers(tb, d.oneIn(2))
	for range questionsPerWorld {
		w.Questions = append(w.Questions, d.question(listers))
	}
	return w
}

// roleRef returns a reference to one of two kinds of roles, or rarely to a kind that a binding cannot refer to.
func (d dice) roleRef(kinds ...string) rbacv1.RoleRef {
	kind := kinds[d.IntN(2)]
	if d.oneIn(20) {
		kind = d.one([]string{"Role", "Robot", ""})
	}
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: fmt.Sprint("r", d.IntN(5))}
}

func (d dice) subjects() []rbacv1.Subject {
	var out []rbacv1.Subject
	for range 1 + d.IntN(3) {
		out = append(out, subjects[min(d.IntN(len(subjects)), d.IntN(len(subjects)))])
	}
	return out
}

// listers returns Remit's listers, with or without the subject index.
func (w world) listers(tb testing.TB, indexed bool) rbac.Listers {
	store := func(objects ...any) toolscache.Indexer {
		s := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		require.NoError(tb, s.AddIndexers(rbac.BindingIndexers()))
		for _, obj := range objects {
			require.NoError(tb, s.Add(obj))
		}
		return s
	}
	bindings, clusterBindings := store(anys(w.RoleBindings)...), store(anys(w.ClusterRoleBindings)...)
	l := rbac.Listers{
		Roles:               rbacv1listers.NewRoleLister(store(anys(w.Roles)...)),
		RoleBindings:        rbacv1listers.NewRoleBindingLister(bindings),
		ClusterRoles:        rbacv1listers.NewClusterRoleLister(store(anys(w.ClusterRoles)...)),
		ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(clusterBindings),
	}
	if indexed {
		l.RoleBindings, l.ClusterRoleBindings = rbac.NewRoleBindingLister(bindings), rbac.NewClusterRoleBindingLister(clusterBindings)
	}
	return l
}

func anys[T any](in []T) []any {
	out := make([]any, len(in))
	for i := range in {
		out[i] = in[i]
	}
	return out
}

// question returns a question about rules, about requests that the rules allow, and about other requests.
func (d dice) question(l rbac.Listers) question {
	who, namespace := users[d.IntN(len(users))], namespaces[d.IntN(len(namespaces))]
	permissions := l.Permissions(who, namespace)
	rules := inOrder(permissions.Rules)
	q := question{User: who.User, Groups: who.Groups, Namespace: namespace, granted: rules}
	if d.oneIn(4) {
		q.Rules = d.rules(anything, 3)
	} else {
		q.Rules = d.partOf(anything, rules)
	}
	q.verdict = permissions.Check(q.Rules)
	// If a rule is missing, the request that it would allow must be denied; if no rule is missing, every request must be
	// allowed.
	atoms, allowed := q.verdict.Missing, false
	if len(atoms) == 0 {
		atoms, allowed = q.Rules, true
	}
	for range 2 {
		if r, ok := d.requestFor(namespace, atoms); ok {
			r.allowed = allowed
			q.Requests = append(q.Requests, r)
		}
	}
	for range 2 {
		from := rules
		if d.oneIn(2) {
			from = []rbacv1.PolicyRule{d.rule(anything)}
		}
		// Cluster-wide permissions apply in every namespace.
		r, ok := d.requestFor(namespaces[d.IntN(len(namespaces))], from)
		if ok {
			r.allowed = l.Permissions(who, r.Namespace).Check([]rbacv1.PolicyRule{r.rule()}).Covered()
			q.Requests = append(q.Requests, r)
		}
	}
	return q
}

// inOrder sorts the listers' results, so that the same seed produces the same questions.
func inOrder(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return slices.SortedFunc(slices.Values(rules), func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(
			slices.Compare(a.Verbs, b.Verbs), slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources),
			slices.Compare(a.ResourceNames, b.ResourceNames), slices.Compare(a.NonResourceURLs, b.NonResourceURLs))
	})
}

// requestFor returns a request that only one of the rules, or an equivalent rule, allows: it replaces a wildcard with a
// value that occurs in no rule. It returns false if there is no such request, for example for URLs in a namespace or
// resources that end in a slash.
func (d dice) requestFor(namespace string, rules []rbacv1.PolicyRule) (request, bool) {
	if len(rules) == 0 {
		return request{}, false
	}
	rule := rules[d.IntN(len(rules))]
	pick := func(values []string) string { return values[d.IntN(len(values))] }
	fresh := func(value, instead string) string {
		if value == "*" {
			return instead
		}
		return value
	}
	switch {
	case len(rule.Verbs) == 0:
		return request{}, false
	case len(rule.NonResourceURLs) > 0:
		path := pick(rule.NonResourceURLs)
		if strings.HasSuffix(path, "*") {
			path = strings.TrimRight(path, "*") + "~fresh"
		}
		return request{Verb: fresh(pick(rule.Verbs), "fresh"), Path: path, URL: true}, namespace == rbac.ClusterScope
	case len(rule.APIGroups) == 0 || len(rule.Resources) == 0:
		return request{}, false
	}
	resource, subresource, isSub := strings.Cut(pick(rule.Resources), "/")
	name := "fresh"
	if len(rule.ResourceNames) > 0 {
		name = pick(rule.ResourceNames)
	}
	return request{
		Verb: fresh(pick(rule.Verbs), "fresh"), Group: fresh(pick(rule.APIGroups), "fresh"), Resource: fresh(resource, "fresh"), Subresource: subresource,
		Name: name, Namespace: namespace,
	}, !isSub || subresource != ""
}

// rule returns a rule that allows only the request.
func (r request) rule() rbacv1.PolicyRule {
	if r.URL {
		return rbacv1.PolicyRule{Verbs: []string{r.Verb}, NonResourceURLs: []string{r.Path}}
	}
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return rbacv1.PolicyRule{Verbs: []string{r.Verb}, APIGroups: []string{r.Group}, Resources: []string{resource}, ResourceNames: []string{r.Name}}
}
