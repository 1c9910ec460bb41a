package audit

import (
	"slices"
	"strings"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Identities are the controller identities.
type Identities struct {
	// Namespace is where Remit is installed, Catalogs is the namespace of the global catalogs.
	Namespace, Catalogs string
	// Users are their user names.
	Users []string
}

// Is reports whether the request was sent as one of the controller identities.
func (i Identities) Is(e Event) bool { return slices.Contains(i.Users, e.User.Username) }

// permit is one entry of the closed list; an empty field other than the group matches anything.
type permit struct {
	group       string
	resources   []string
	subresource string
	verbs       []string
	// in limits the entry to one of Remit's namespaces.
	in func(Identities) string
	// prefix is a prefix of the objects' names.
	prefix string
	// like restricts the entry to some requests; nil means no restriction.
	like func(Event) bool
}

const operators = "operators.coreos.com"

// closedList are the writes that the security model allows the controller identities, with its numbers. Attempts that
// the API server rejects and dry runs must be on it as well.
var closedList = []permit{
	// 2. status and finalizers; events; leases
	{group: operators, subresource: "status", verbs: []string{"patch", "update"}},
	{group: operators, subresource: "finalizers", verbs: []string{"patch", "update"}},
	{group: operators, resources: []string{"clusterserviceversions"}, verbs: []string{"patch"}, like: removesFinalizers},
	{group: "", resources: []string{"events"}, verbs: []string{"create", "patch"}},
	{group: "events.k8s.io", resources: []string{"events"}, verbs: []string{"create", "patch"}},
	{group: "coordination.k8s.io", resources: []string{"leases"}, verbs: []string{"update"}, in: own},
	// 3. inert objects of its own API
	{group: operators, resources: []string{"installplans", "subscriptions"}, verbs: []string{"create"}},
	// reports of InstallPlans
	{group: "", resources: []string{"configmaps"}, verbs: []string{"create", "patch"}, prefix: names.ReportPrefix},
	// 4. tokens of enrolled accounts
	{group: "", resources: []string{"serviceaccounts"}, subresource: "token", verbs: []string{"create"}},
	// 5. registries of catalog images; admission restricts them to objects that a CatalogSource owns
	{group: "", resources: []string{"pods", "serviceaccounts", "services"}, verbs: []string{"create", "delete", "patch"}, in: catalogs},
	// the keys of proofs
	{group: "", resources: []string{"secrets"}, verbs: []string{"patch"}, in: own, prefix: names.SecretProof},
	// 6. questions
	{group: "authorization.k8s.io", resources: []string{"subjectaccessreviews"}, verbs: []string{"create"}},
	{group: "authentication.k8s.io", resources: []string{"selfsubjectreviews"}, verbs: []string{"create"}},
}

func own(i Identities) string { return i.Namespace }

func catalogs(i Identities) string { return i.Catalogs }

// Allows reports whether the closed list covers a request of the controller identities. Reads are allowed except those
// of Secrets, but the keys of proofs and single Secrets of the global catalogs' namespace may be read.
func (i Identities) Allows(e Event) bool {
	if !e.AsksToWrite() {
		return e.Object == nil || e.Object.Resource != "secrets" || i.reads(*e.Object, e.Verb)
	}
	return e.Object != nil && slices.ContainsFunc(closedList, func(p permit) bool { return p.covers(e, i) })
}

// reads reports whether the controller identities may read the Secret by name.
func (i Identities) reads(secret Object, verb string) bool {
	return secret.Namespace == i.Catalogs && verb == "get" || secret.Namespace == i.Namespace && secret.Name == names.SecretProof
}

func (p permit) covers(e Event, identities Identities) bool {
	o := e.Object
	return o.APIGroup == p.group && o.Subresource == p.subresource &&
		(len(p.resources) == 0 || slices.Contains(p.resources, o.Resource)) &&
		slices.Contains(p.verbs, e.Verb) &&
		(p.in == nil || o.Namespace == p.in(identities)) &&
		strings.HasPrefix(o.Name, p.prefix) &&
		(p.like == nil || p.like(e))
}
