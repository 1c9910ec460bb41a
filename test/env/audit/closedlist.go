package audit

import (
	"slices"
	"strings"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Self are Remit's own identities.
type Self struct {
	// Namespace is where Remit is installed, Catalogs the namespace of the global catalogs.
	Namespace, Catalogs string
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
	// in limits the entry to one of Remit's namespaces.
	in func(Self) string
	// prefix is that of the names of the objects.
	prefix string
	// like limits the entry to some requests; nil is no limit.
	like func(Event) bool
}

const operators = "operators.coreos.com"

// closedList are the writes of the security model's list "what self may do", with its numbers. An
// attempt that the API server refuses is outside of it too, and so is a dry run.
var closedList = []permit{
	// 2. status and finalizers; events; leases
	{group: operators, subresource: "status", verbs: []string{"patch", "update"}},
	{group: operators, subresource: "finalizers", verbs: []string{"patch", "update"}},
	{group: operators, resources: []string{"clusterserviceversions"}, verbs: []string{"patch"}, like: removesFinalizers},
	{group: "", resources: []string{"events"}, verbs: []string{"create", "patch"}},
	{group: "events.k8s.io", resources: []string{"events"}, verbs: []string{"create", "patch"}},
	{group: "coordination.k8s.io", resources: []string{"leases"}, verbs: []string{"update"}, in: own},
	// 3. inert objects of the own API, copied CSVs among them
	{group: operators, resources: []string{"clusterserviceversions", "installplans", "operatorconditions", "operators", "subscriptions"},
		verbs: []string{"create"}},
	// reports of InstallPlans
	{group: "", resources: []string{"configmaps"}, verbs: []string{"create", "patch"}, prefix: names.ReportPrefix},
	// 4. tokens of enrolled accounts
	{group: "", resources: []string{"serviceaccounts"}, subresource: "token", verbs: []string{"create"}},
	// 5. registries of catalog images; admission holds them to what a CatalogSource owns
	{group: "", resources: []string{"pods", "serviceaccounts", "services"}, verbs: []string{"create", "delete", "patch"}, in: catalogs},
	// the keys of proofs
	{group: "", resources: []string{"secrets"}, verbs: []string{"patch"}, in: own, prefix: names.SecretProof},
	// 6. questions
	{group: "authorization.k8s.io", resources: []string{"subjectaccessreviews"}, verbs: []string{"create"}},
	{group: "authentication.k8s.io", resources: []string{"selfsubjectreviews"}, verbs: []string{"create"}},
}

func own(s Self) string { return s.Namespace }

func catalogs(s Self) string { return s.Catalogs }

// Allows says whether the closed list covers a request that was sent as self. Of reads it refuses only
// those of Secrets, but for the keys of proofs and a single one of the global catalogs' namespace.
func (s Self) Allows(e Event) bool {
	if !e.AsksToWrite() {
		return e.Object == nil || e.Object.Resource != "secrets" || s.reads(*e.Object, e.Verb)
	}
	return e.Object != nil && slices.ContainsFunc(closedList, func(p permit) bool { return p.covers(e, s) })
}

// reads says whether self reads that Secret, by its name.
func (s Self) reads(secret Object, verb string) bool {
	return secret.Namespace == s.Catalogs && verb == "get" || secret.Namespace == s.Namespace && secret.Name == names.SecretProof
}

func (p permit) covers(e Event, self Self) bool {
	o := e.Object
	return o.APIGroup == p.group && o.Subresource == p.subresource &&
		(len(p.resources) == 0 || slices.Contains(p.resources, o.Resource)) &&
		slices.Contains(p.verbs, e.Verb) &&
		(p.in == nil || o.Namespace == p.in(self)) &&
		strings.HasPrefix(o.Name, p.prefix) &&
		(p.like == nil || p.like(e))
}
