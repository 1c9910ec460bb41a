package audit

import (
	"slices"
	"strings"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Self are Remit's own identities.
type Self struct {
	// Namespace is where Remit is installed.
	Namespace string
	// Users are the names of its users.
	Users []string
}

// Is says whether the request was sent as self.
func (s Self) Is(e Event) bool { return slices.Contains(s.Users, e.User.Username) }

// permit is one entry of the closed list; an empty field other than the group means any.
type permit struct {
	group       string
	resources   []string
	subresource string
	verbs       []string
	// own limits the entry to Remit's own namespace.
	own bool
	// prefix is that of the names of the objects.
	prefix string
}

const operators = "operators.coreos.com"

// closedList are the writes of the security model's list "what self may do", with its numbers. An
// attempt that the API server refuses is outside of it too.
var closedList = []permit{
	// 2. status and finalizers; events; leases; its own ConfigMaps
	{group: operators, subresource: "status", verbs: []string{"patch", "update"}},
	{group: operators, subresource: "finalizers", verbs: []string{"patch", "update"}},
	{group: operators, resources: []string{"clusterserviceversions"}, verbs: []string{"patch"}}, // its finalizer
	{group: "", resources: []string{"events"}, verbs: []string{"create", "patch"}},
	{group: "events.k8s.io", resources: []string{"events"}, verbs: []string{"create", "patch"}},
	{group: "coordination.k8s.io", resources: []string{"leases"}, verbs: []string{"create", "patch", "update"}, own: true},
	{group: "", resources: []string{"configmaps"}, verbs: []string{"create", "patch", "update"}, own: true},
	// 3. inert objects of the own API, copied CSVs among them
	{group: operators, resources: []string{"clusterserviceversions", "installplans", "operatorconditions", "operators", "subscriptions"},
		verbs: []string{"create"}},
	// reports of InstallPlans
	{group: "", resources: []string{"configmaps"}, verbs: []string{"create", "patch"}, prefix: names.ReportPrefix},
	// 4. tokens of enrolled accounts
	{group: "", resources: []string{"serviceaccounts"}, subresource: "token", verbs: []string{"create"}},
	// 5. registries of catalog images; admission holds them to what a CatalogSource owns
	{group: "", resources: []string{"pods", "serviceaccounts", "services"}, verbs: []string{"create", "delete", "patch"}, own: true},
	// 6. questions
	{group: "authorization.k8s.io", resources: []string{"subjectaccessreviews"}, verbs: []string{"create"}},
	{group: "authentication.k8s.io", resources: []string{"selfsubjectreviews"}, verbs: []string{"create"}},
}

// Allows says whether the closed list covers a request that was sent as self. Of reads it refuses only
// those of Secrets outside of Remit's own namespace.
func (s Self) Allows(e Event) bool {
	if !e.IsWrite() {
		return e.Object == nil || e.Object.Resource != "secrets" || e.Object.Namespace == s.Namespace
	}
	return e.Object != nil && slices.ContainsFunc(closedList, func(p permit) bool { return p.covers(e, s.Namespace) })
}

func (p permit) covers(e Event, own string) bool {
	o := e.Object
	return o.APIGroup == p.group && o.Subresource == p.subresource &&
		(len(p.resources) == 0 || slices.Contains(p.resources, o.Resource)) &&
		slices.Contains(p.verbs, e.Verb) &&
		(!p.own || o.Namespace == own) &&
		strings.HasPrefix(o.Name, p.prefix)
}
