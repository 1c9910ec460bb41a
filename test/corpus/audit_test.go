package corpus

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/audit"
)

// traffic summarizes the requests from one account.
type traffic struct {
	// requests is the number of requests, except those that publish the OperatorGroup and were not refused.
	requests int
	// writes is the number of these requests that could have changed an object. A ClusterExtension's identity also reads
	// before all permissions are granted.
	writes  int
	refused []string
	// used is the set of permissions that the account's requests needed.
	used map[use]bool
}

// use is one authorization check that allowed a request.
type use struct{ namespace, verb, group, resource, name string }

// uses returns the authorization checks that the API server made for a request.
func uses(e audit.Event) []use {
	o := e.Object
	if o == nil {
		return nil
	}
	resource := o.Resource
	if o.Subresource != "" {
		resource += "/" + o.Subresource
	}
	u := use{o.Namespace, e.Verb, o.APIGroup, resource, o.Name}
	if e.Verb == "patch" && e.Created() {
		created := u
		created.verb = "create"
		return []use{u, created}
	}
	return []use{u}
}

// accounts returns the traffic of each account in the audit log, keyed by the account's namespace.
func accounts(events []audit.Event) map[string]*traffic {
	out := map[string]*traffic{}
	for _, e := range events {
		namespace, ok := accountOf(e)
		if !ok {
			continue
		}
		t := out[namespace]
		if t == nil {
			t = &traffic{used: map[use]bool{}}
			out[namespace] = t
		}
		if e.Response.Code == 403 || !isPublication(e) {
			t.requests++
			if e.IsWrite() && !isReview(e) {
				t.writes++
			}
		}
		if e.Response.Code == 403 {
			t.refused = append(t.refused, e.String())
		}
		for _, u := range uses(e) {
			t.used[u] = true
		}
	}
	return out
}

// isPublication reports whether a request maintains the ClusterRoles of an OperatorGroup or the labels of its target
// namespaces. They are written as soon as the account is allowed to, even if permissions for an install are missing. The
// annotation is not: without a ClusterServiceVersion, it has no APIs to list.
func isPublication(e audit.Event) bool {
	o := e.Object
	if o == nil || e.Impersonated != nil {
		return false
	}
	return o.Resource == "namespaces" && e.DescribesGroup() ||
		o.APIGroup == rbacv1.GroupName && o.Resource == "clusterroles" && strings.HasPrefix(o.Name, "olm.og.group.")
}

// isReview reports whether a request asks the API server about the sender.
func isReview(e audit.Event) bool {
	return e.Object != nil && (e.Object.APIGroup == "authorization.k8s.io" || e.Object.APIGroup == "authentication.k8s.io")
}

// accountOf returns the namespace of the account or ClusterExtension whose identity sent a request. In this test, a
// ClusterExtension has the same name as its namespace.
func accountOf(e audit.Event) (namespace string, ok bool) {
	if e.Impersonated != nil {
		return strings.CutPrefix(e.Impersonated.Username, names.UserExtensionPrefix)
	}
	namespace, ok = strings.CutSuffix(e.User.Username, ":"+accountName)
	if !ok {
		return "", false
	}
	return strings.CutPrefix(namespace, "system:serviceaccount:")
}

// ledger counts, by verb and resource, how often each permission was required and how often it was used.
type ledger struct{ asked, used map[string]int }

// book adds one case. It skips permissions that are required only because the account grants them to others, since no
// request uses them.
func (l ledger) book(needs []preflight.Need, t *traffic) {
	for _, n := range needs {
		if n.Granted {
			continue
		}
		for _, atom := range rbac.Atoms(n.Rules) {
			if atom.Verbs[0] == "bind" {
				continue // the API server checks it as part of another request
			}
			line := atom.Verbs[0] + " " + label(atom)
			l.asked[line]++
			if t != nil && usedBy(n.Namespace, atom, t.used) {
				l.used[line]++
			}
		}
	}
}

func label(atom rbacv1.PolicyRule) string {
	if len(atom.NonResourceURLs) > 0 {
		return atom.NonResourceURLs[0]
	}
	out := atom.Resources[0]
	if atom.APIGroups[0] != "" {
		out += "." + atom.APIGroups[0]
	}
	if len(atom.ResourceNames) == 0 {
		out += " (any name)"
	}
	return out
}

func usedBy(namespace string, atom rbacv1.PolicyRule, used map[use]bool) bool {
	for u := range used {
		if u.namespace == namespace && u.verb == atom.Verbs[0] && u.group == atom.APIGroups[0] && u.resource == atom.Resources[0] &&
			(len(atom.ResourceNames) == 0 || atom.ResourceNames[0] == u.name) {
			return true
		}
	}
	return false
}

// lines returns, for each permission, a line that states how often it was used; "!" marks unused permissions.
func (l ledger) lines() []string {
	var out []string
	for _, line := range slices.Sorted(maps.Keys(l.asked)) {
		mark := " "
		if l.used[line] == 0 {
			mark = "!"
		}
		out = append(out, fmt.Sprintf("%s %5d of %5d %s", mark, l.used[line], l.asked[line], line))
	}
	return out
}
