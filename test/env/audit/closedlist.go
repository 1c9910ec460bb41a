package audit

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Identities describes the controller identities of a cluster.
type Identities struct {
	// Namespace is the namespace of Remit, and Catalogs is the namespace of the global catalogs.
	Namespace, Catalogs string
	// Users are the user names of the controller identities.
	Users []string
}

// Is reports whether the request was sent as one of the controller identities.
func (i Identities) Is(e Event) bool { return slices.Contains(i.Users, e.User.Username) }

// program returns the user name of one of Remit's programs.
func (i Identities) program(name string) string { return scoped.Username(i.Namespace, name) }

// permit is an entry of the closed list. The API group, the subresource and the verb of a request must always match.
// For the other fields, the zero value matches anything.
type permit struct {
	group       string
	resources   []string
	subresource string
	verbs       []string
	// in returns the only namespace in which the entry applies; nil means all namespaces.
	in func(Identities) string
	// prefix is the prefix of the objects' names.
	prefix string
	// by is the name of the only program to which the entry applies; "" means all programs.
	by string
	// like restricts the entry to the requests for which it returns true; nil means no restriction.
	like func(Event) bool
}

const (
	operators  = "operators.coreos.com"
	extensions = "olm.operatorframework.io"
	packages   = "packages.operators.coreos.com"
)

// closedList lists the writes that docs/adr/0001 permits for the controller identities; the numbers are those of its
// items. Rejected writes and dry runs must be on the list as well.
var closedList = []permit{
	// 2: statuses and finalizers
	{group: operators, subresource: "status", verbs: []string{"patch", "update"}},
	{group: operators, subresource: "finalizers", verbs: []string{"patch", "update"}},
	{group: operators, resources: []string{"clusterserviceversions"}, verbs: []string{"patch"}, like: removesFinalizers},
	{group: operators, resources: []string{"clusterserviceversions"}, verbs: []string{"patch"}, by: names.ServiceAccountOLM, like: replacesAccount}, // docs/adr/0085
	// 3: copies; admission restricts these writes to copies
	{group: operators, resources: []string{"clusterserviceversions"}, verbs: []string{"create", "delete", "patch"}, by: names.ServiceAccountOLM, like: writesCopy},
	// 4: events
	{group: "", resources: []string{"events"}, verbs: []string{"create", "patch"}},
	{group: "events.k8s.io", resources: []string{"events"}, verbs: []string{"create", "patch"}},
	// 7: the Lease
	{group: "coordination.k8s.io", resources: []string{"leases"}, verbs: []string{"update"}, in: own},
	// docs/adr/0047: ClusterCatalogs and ClusterExtensions; admission restricts the patches of ClusterCatalogs to a label
	{group: extensions, resources: []string{"clustercatalogs", "clusterextensions"}, subresource: "status", verbs: []string{"patch"}, by: names.ServiceAccountExtension},
	{group: extensions, resources: []string{"clustercatalogs"}, verbs: []string{"patch"}, by: names.ServiceAccountExtension},
	{group: extensions, resources: []string{"clusterextensions"}, verbs: []string{"patch"}, by: names.ServiceAccountExtension, like: patchesFinalizers},
	// docs/adr/0045: the CA of the catalog server
	{group: "", resources: []string{"configmaps"}, verbs: []string{"patch"}, in: own, prefix: names.ConfigMapCatalogContentCA, by: names.ServiceAccountExtension},
	// docs/adr/0073: the content of what ClusterExtensions have installed
	{group: "", resources: []string{"configmaps"}, verbs: []string{"create", "patch"}, in: own, prefix: names.ContentPrefix, by: names.ServiceAccountExtension},
	// 3: objects that have no effect without an account
	{group: operators, resources: []string{"installplans", "subscriptions"}, verbs: []string{"create"}},
	{group: operators, resources: []string{"operatorconditions"}, verbs: []string{"create"}, by: names.ServiceAccountOLM},
	{group: operators, resources: []string{"operators"}, verbs: []string{"create", "delete"}, by: names.ServiceAccountOLM}, // docs/adr/0062
	// 4: reports of InstallPlans
	{group: "", resources: []string{"configmaps"}, verbs: []string{"create", "patch"}, prefix: names.ReportPrefix},
	// 5: tokens for enrolled accounts
	{group: "", resources: []string{"serviceaccounts"}, subresource: "token", verbs: []string{"create"}},
	// 6: registries of catalog images; admission restricts them to objects that a CatalogSource owns
	{group: "", resources: []string{"pods", "serviceaccounts", "services"}, verbs: []string{"create", "delete", "patch"}, in: catalogs},
	// 7: the keys for proofs
	{group: "", resources: []string{"secrets"}, verbs: []string{"patch"}, in: own, prefix: names.SecretProof},
	// 8: reviews
	{group: "authorization.k8s.io", resources: []string{"subjectaccessreviews"}, verbs: []string{"create"}},
	{group: "authentication.k8s.io", resources: []string{"selfsubjectreviews"}, verbs: []string{"create"}},
	// docs/adr/0060: catalogs that are sent to package-server, which delegates authentication, and publishes its CA
	{group: packages, resources: []string{"packagecatalogs"}, subresource: "content", verbs: []string{"delete", "update"}, by: names.ServiceAccountCatalog},
	{group: packages, resources: []string{"packagecatalogs"}, subresource: "complete", verbs: []string{"update"}, by: names.ServiceAccountCatalog},
	{group: "authentication.k8s.io", resources: []string{"tokenreviews"}, verbs: []string{"create"}, by: names.ServiceAccountPackageServer},
	{group: "apiregistration.k8s.io", resources: []string{"apiservices"}, verbs: []string{"patch"}, prefix: "v1.packages.operators.coreos.com", by: names.ServiceAccountPackageServer},
}

func own(i Identities) string { return i.Namespace }

func catalogs(i Identities) string { return i.Catalogs }

// Allows reports whether the closed list covers a request from a controller identity. All reads are allowed except
// reads of Secrets other than the keys for proofs and single Secrets in the global catalog namespace. The program for
// ClusterExtensions may also send requests as their synthetic users, which the list does not limit.
func (i Identities) Allows(e Event) bool {
	if e.Impersonated != nil {
		return e.User.Username == i.program(names.ServiceAccountExtension) && strings.HasPrefix(e.Impersonated.Username, names.UserExtensionPrefix) &&
			!slices.ContainsFunc(e.Impersonated.Groups, func(group string) bool { return group != names.GroupExtensions && group != user.AllAuthenticated })
	}
	if !e.AsksToWrite() {
		return e.Object == nil || e.Object.Resource != "secrets" || i.reads(*e.Object, e.Verb)
	}
	return e.Object != nil && slices.ContainsFunc(closedList, func(p permit) bool { return p.covers(e, i) })
}

// reads reports whether the controller identities may read the Secret.
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
		(p.by == "" || e.User.Username == identities.program(p.by)) &&
		(p.like == nil || p.like(e))
}
