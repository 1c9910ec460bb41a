package provided

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Limits of one check. If they are exceeded, a conflict may be missed. This is acceptable, because conflicts protect
// users only from mistakes; they are not a security boundary.
const (
	// maxRivals is the number of operators of other groups whose group and account are examined.
	maxRivals = 100
	// maxShared is the number of shared namespaces in which the account of another group is examined.
	maxShared = 100
	// maxCandidates is the number of ClusterServiceVersions of other groups whose Deployments are examined, the oldest
	// first, and maxDeployments the number of Deployments of each.
	maxCandidates  = 1000
	maxDeployments = 20
	// maxLookups is the number of targets for which Deployments are looked up by target, and the number of namespaces with such
	// Deployments in which ClusterServiceVersions are looked up by namespace.
	maxLookups = 20
	// maxExamined is the number of APIs that are compared of ClusterServiceVersions of other groups that are not indexed by their
	// APIs, the oldest first.
	maxExamined = 100_000
)

// Conflicts finds conflicts with the operators of other OperatorGroups. All fields are required.
type Conflicts struct {
	// Reader reads from a cache with the index that Index adds.
	Reader client.Reader
	RBAC   rbac.Listers
	Proofs ownerutil.Proofs
	// Groups finds OperatorGroups, their accounts and targets in the cache.
	Groups scoped.Lookup
	Filter scoped.NamespaceFilter
}

// Rival returns the namespace of an operator of another OperatorGroup that already provides one of the APIs of a
// ClusterServiceVersion, whose owner is given, in one of these targets, or "". Such an operator counts only if all of the following
// apply:
//
//   - Remit is proven to have written a Deployment for it that serves the namespace, so that creating a
//     ClusterServiceVersion first is not enough;
//   - its OperatorGroup still targets the namespace;
//   - the account of its OperatorGroup may update objects of the API there. A tenant can list other tenants' namespaces
//     as targets, but only the administrators of those namespaces can grant permissions in them.
//
// The first operator keeps the API: an operator that already serves the namespace has no conflict, whichever version of the API it
// provides. Otherwise, the lineage that is proven to have installed the API's definition keeps it, so that users who only list the
// API cannot prevent its operator from being installed. If there is no such lineage and two operators were installed at the same time,
// the one with the older Deployment keeps the API.
func (c Conflicts) Rival(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner, targets []string) (string, error) {
	apis := Of(csv)
	if len(apis) == 0 {
		return "", nil
	}
	serving, err := c.serving(ctx, csv.Namespace, targets)
	if err != nil || (serving != nil && len(serving) == 0) {
		return "", err
	}
	rivals, err := c.rivals(ctx, csv.Namespace, serving, apis)
	if err != nil {
		return "", err
	}
	others, err := c.claims(ctx, rivals[:min(len(rivals), maxCandidates)], targets)
	if err != nil || len(others) == 0 {
		return "", err
	}
	siblings, err := c.siblings(ctx, csv.Namespace, apis)
	if err != nil {
		return "", err
	}
	own, err := c.claims(ctx, siblings, targets)
	if err != nil {
		return "", err
	}
	slices.SortFunc(others, claim.compare)
	d := &dispute{Conflicts: c, owner: owner, own: own, apis: apis, targets: targets}
	for _, other := range others[:min(len(others), maxRivals)] {
		switch found, err := d.excludes(ctx, other); {
		case err != nil:
			return "", err
		case found:
			return other.csv.Namespace, nil
		}
	}
	return "", nil
}

// siblings returns the ClusterServiceVersions of a namespace that provide the resource of one of the APIs, in any version: an upgrade can
// add versions and remove others.
func (c Conflicts) siblings(ctx context.Context, own string, apis []API) (out []*operatorsv1alpha1.ClusterServiceVersion, err error) {
	asked, seen := map[string]bool{}, map[string]bool{}
	for _, api := range apis {
		resource := api.Resource()
		if asked[resource] {
			continue
		}
		asked[resource] = true
		list, err := c.list(ctx, own, resourceIndex, resource)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if !seen[list[i].Name] {
				out = append(out, &list[i])
			}
			seen[list[i].Name] = true
		}
	}
	many, err := c.list(ctx, own, resourceIndex, manyAPIs)
	if err != nil {
		return nil, err
	}
	for i := range many {
		if provides(&many[i], func(api API) bool { return asked[api.Resource()] }) {
			out = append(out, &many[i])
		}
	}
	return out, nil
}

// provides reports whether match returns true for one of the APIs that a ClusterServiceVersion owns.
func provides(csv *operatorsv1alpha1.ClusterServiceVersion, match func(API) bool) bool {
	return slices.ContainsFunc(defined(csv), match) || slices.ContainsFunc(served(csv), match)
}

// rivals returns the ClusterServiceVersions outside the namespace that provide one of the APIs, oldest first. It omits those that are being
// deleted or whose namespace is not serving. If only a few namespaces are serving, it lists only these, because the same operator may be
// installed in many others.
func (c Conflicts) rivals(ctx context.Context, own string, serving map[string]bool, apis []API) (out []*operatorsv1alpha1.ClusterServiceVersion, err error) {
	namespaces := []string{metav1.NamespaceAll}
	if serving != nil && len(serving) <= maxLookups {
		namespaces = slices.Collect(maps.Keys(serving))
	}
	seen := map[client.ObjectKey]bool{}
	find := func(namespace, key string) (found []*operatorsv1alpha1.ClusterServiceVersion, err error) {
		list, err := c.list(ctx, namespace, index, key)
		for i := range list {
			csv := &list[i]
			key := client.ObjectKeyFromObject(csv)
			if !seen[key] && csv.Namespace != own && csv.DeletionTimestamp == nil && (serving == nil || serving[csv.Namespace]) {
				found = append(found, csv)
			}
			seen[key] = true
		}
		return found, err
	}
	wanted := map[string]bool{}
	var many []*operatorsv1alpha1.ClusterServiceVersion
	for _, namespace := range namespaces {
		for _, api := range apis {
			found, err := find(namespace, api.String())
			if err != nil {
				return nil, err
			}
			wanted[api.String()] = true
			out = append(out, found...)
		}
		found, err := find(namespace, manyAPIs)
		if err != nil {
			return nil, err
		}
		many = append(many, found...)
	}
	out = append(out, examine(many, wanted)...)
	slices.SortFunc(out, oldestFirst)
	return out, nil
}

// examine returns the ClusterServiceVersions that provide a wanted API. It examines the oldest first, up to a limit.
func examine(csvs []*operatorsv1alpha1.ClusterServiceVersion, wanted map[string]bool) (out []*operatorsv1alpha1.ClusterServiceVersion) {
	slices.SortFunc(csvs, oldestFirst)
	examined := 0
	for _, csv := range csvs {
		if examined += len(csv.Spec.CustomResourceDefinitions.Owned) + len(csv.Spec.APIServiceDefinitions.Owned); examined > maxExamined {
			break
		}
		if provides(csv, func(api API) bool { return wanted[api.String()] }) {
			out = append(out, csv)
		}
	}
	return out
}

func oldestFirst(a, b *operatorsv1alpha1.ClusterServiceVersion) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// list returns the ClusterServiceVersions of a namespace, or of all for "", that an index contains under a key.
func (c Conflicts) list(ctx context.Context, namespace, by, key string) ([]operatorsv1alpha1.ClusterServiceVersion, error) {
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	err := cmp.Or(ctx.Err(), c.Reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{by: key}, client.UnsafeDisableDeepCopy))
	if err != nil {
		return nil, fmt.Errorf("list ClusterServiceVersions that provide %s: %w", key, err)
	}
	return list.Items, nil
}

// serving returns the other namespaces that contain a Deployment that serves one of the targets, or nil if there are many targets. It
// saves listing the same operator in every other namespace.
func (c Conflicts) serving(ctx context.Context, own string, targets []string) (map[string]bool, error) {
	if len(targets) > maxLookups || slices.Contains(targets, scoped.AllNamespaces) {
		return nil, nil
	}
	namespaces := map[string]bool{}
	for _, target := range append([]string{servesAll}, targets...) {
		list := &appsv1.DeploymentList{}
		err := cmp.Or(ctx.Err(), c.Reader.List(ctx, list, client.MatchingFields{servesIndex: target}, client.UnsafeDisableDeepCopy))
		if err != nil {
			return nil, fmt.Errorf("list Deployments that serve %s: %w", target, err)
		}
		for i := range list.Items {
			namespaces[list.Items[i].Namespace] = true
		}
	}
	delete(namespaces, own)
	return namespaces, nil
}

// claims returns the claims of the ClusterServiceVersions that serve one of the targets.
func (c Conflicts) claims(ctx context.Context, csvs []*operatorsv1alpha1.ClusterServiceVersion, targets []string) ([]claim, error) {
	var out []claim
	for _, csv := range csvs {
		claimed, err := c.claim(ctx, csv, targets)
		if err != nil {
			return nil, err
		}
		if len(claimed.shared) > 0 {
			out = append(out, claimed)
		}
	}
	return out, nil
}

// claim describes the APIs and namespaces that an operator is proven to serve.
type claim struct {
	csv *operatorsv1alpha1.ClusterServiceVersion
	// owner is the owner of the Deployments according to their proofs. Its Since is not set.
	owner ownerutil.Owner
	// apis contains the texts of the APIs that it owns, and resources the names of their resources.
	apis, resources map[string]bool
	// shared contains the examined targets that the operator's Deployments serve.
	shared []string
	// since is the creation time of the oldest of these Deployments.
	since time.Time
}

// compare orders claims by age.
func (a claim) compare(b claim) int {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.csv.Namespace, b.csv.Namespace), cmp.Compare(a.csv.Name, b.csv.Name))
}

// serves reports whether the operator provides the resource of an API in a namespace, in any version.
func (a claim) serves(api API, namespace string) bool {
	return a.resources[api.Resource()] && (slices.Contains(a.shared, namespace) || slices.Contains(a.shared, scoped.AllNamespaces))
}

// succeeded reports whether a ClusterServiceVersion is known to have succeeded.
func succeeded(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded || slices.ContainsFunc(csv.Status.Conditions,
		func(c operatorsv1alpha1.ClusterServiceVersionCondition) bool {
			return c.Phase == operatorsv1alpha1.CSVPhaseSucceeded
		})
}

// claim returns the claim of a ClusterServiceVersion according to its Deployments. The annotation of their Pods lists the
// targets for which a Deployment was written. The labels and annotations of the ClusterServiceVersion are ignored.
func (c Conflicts) claim(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, targets []string) (claim, error) {
	out := claim{csv: csv}
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	for _, spec := range specs[:min(len(specs), maxDeployments)] {
		d := &appsv1.Deployment{}
		err := cmp.Or(ctx.Err(), c.Reader.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: spec.Name}, d, client.UnsafeDisableDeepCopy))
		if client.IgnoreNotFound(err) != nil {
			return out, fmt.Errorf("get Deployment %s/%s: %w", csv.Namespace, spec.Name, err)
		}
		if err != nil || !deployment.OwnedBy(d, csv.UID) {
			continue
		}
		shared := intersect(targets, servedBy(d))
		if len(shared) == 0 {
			continue
		}
		owner, proven := ownerutil.OwnerIn(d, csv.Namespace, time.Time{}, c.Proofs)
		if !proven {
			continue
		}
		out.owner = owner
		out.shared = append(out.shared, shared...)
		if at := d.CreationTimestamp.Time; out.since.IsZero() || at.Before(out.since) {
			out.since = at
		}
	}
	slices.Sort(out.shared)
	if out.shared = slices.Compact(out.shared); len(out.shared) > 0 {
		out.apis, out.resources = namesOf(csv)
	}
	return out, nil
}

// namesOf returns the texts of the APIs that a ClusterServiceVersion owns, and the names of their resources.
func namesOf(csv *operatorsv1alpha1.ClusterServiceVersion) (texts, resources map[string]bool) {
	texts, resources = map[string]bool{}, map[string]bool{}
	for _, api := range Of(csv) {
		texts[api.String()], resources[api.Resource()] = true, true
	}
	return texts, resources
}

// managing returns the rule that the account of an operator must have in a namespace; otherwise, the operator's claim
// on the API is ignored there.
func managing(api API) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{api.Group}, Resources: []string{api.Plural}, Verbs: []string{"update"}}}
}

// ignoreProblem returns nil if another OperatorGroup has no usable account or targets, and therefore no claims.
func ignoreProblem(err error) error {
	if scoped.ReasonOf(err) != "" || errors.As(err, new(*scoped.UndecidedError)) {
		return nil
	}
	return err
}

// intersect returns the sorted namespaces that both lists of targets contain.
func intersect(a, b []string) []string {
	switch {
	case slices.Contains(b, scoped.AllNamespaces):
		return a
	case slices.Contains(a, scoped.AllNamespaces):
		return b
	}
	in := make(map[string]bool, len(b))
	for _, namespace := range b {
		in[namespace] = true
	}
	var out []string
	for _, namespace := range a {
		if in[namespace] {
			out = append(out, namespace)
		}
	}
	return out
}
