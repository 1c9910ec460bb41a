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
// ClusterServiceVersion in one of these targets, or "". Such an operator counts only if all of the following apply:
//
//   - Remit is proven to have written a Deployment for it that serves the namespace, so that creating a
//     ClusterServiceVersion first is not enough;
//   - its OperatorGroup still targets the namespace;
//   - the account of its OperatorGroup may update objects of the API there. A tenant can list other tenants' namespaces
//     as targets, but only the administrators of those namespaces can grant permissions in them.
//
// The first operator keeps the API: an operator that already serves the namespace has no conflict. If two operators
// were installed at the same time, the one with the older Deployment keeps the API.
func (c Conflicts) Rival(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, targets []string) (string, error) {
	apis := Of(csv)
	if len(apis) == 0 {
		return "", nil
	}
	serving, err := c.serving(ctx, csv.Namespace, targets)
	if err != nil || (serving != nil && len(serving) == 0) {
		return "", err
	}
	siblings, rivals, err := c.providers(ctx, csv.Namespace, serving, apis)
	if err != nil {
		return "", err
	}
	own, err := c.claims(ctx, siblings, targets)
	if err != nil {
		return "", err
	}
	others, err := c.claims(ctx, rivals[:min(len(rivals), maxCandidates)], targets)
	if err != nil {
		return "", err
	}
	slices.SortFunc(others, claim.compare)
	for _, other := range others[:min(len(others), maxRivals)] {
		switch found, err := c.excludes(ctx, other, own, apis, targets); {
		case err != nil:
			return "", err
		case found:
			return other.csv.Namespace, nil
		}
	}
	return "", nil
}

// providers returns the ClusterServiceVersions that provide one of the APIs: those inside the namespace and those outside. Of
// the latter, it omits those that are being deleted or whose namespace is not serving, and sorts the others by age, oldest first. If
// only a few namespaces are serving, it lists only these, because the same operator may be installed in many others.
func (c Conflicts) providers(ctx context.Context, own string, serving map[string]bool, apis []API) (inside, outside []*operatorsv1alpha1.ClusterServiceVersion, err error) {
	namespaces := []string{metav1.NamespaceAll}
	if serving != nil && len(serving) <= maxLookups {
		namespaces = append(slices.Collect(maps.Keys(serving)), own)
	}
	seen := map[client.ObjectKey]bool{}
	for _, api := range apis {
		for _, namespace := range namespaces {
			list := &operatorsv1alpha1.ClusterServiceVersionList{}
			err := cmp.Or(ctx.Err(), c.Reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{index: api.String()}, client.UnsafeDisableDeepCopy))
			if err != nil {
				return nil, nil, fmt.Errorf("list ClusterServiceVersions that provide %s: %w", api, err)
			}
			for i := range list.Items {
				csv := &list.Items[i]
				key := client.ObjectKeyFromObject(csv)
				switch {
				case seen[key]:
				case csv.Namespace == own:
					inside = append(inside, csv)
				case csv.DeletionTimestamp == nil && (serving == nil || serving[csv.Namespace]):
					outside = append(outside, csv)
				}
				seen[key] = true
			}
		}
	}
	slices.SortFunc(outside, func(a, b *operatorsv1alpha1.ClusterServiceVersion) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return inside, outside, nil
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
	// apis contains the texts of the APIs that it owns.
	apis map[string]bool
	// shared contains the examined targets that the operator's Deployments serve.
	shared []string
	// since is the creation time of the oldest of these Deployments.
	since time.Time
}

// compare orders claims by age.
func (a claim) compare(b claim) int {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.csv.Namespace, b.csv.Namespace), cmp.Compare(a.csv.Name, b.csv.Name))
}

// keeps reports whether a claim on an API in a namespace takes precedence over that of another operator. An operator
// that has succeeded keeps its APIs, so that no other tenant can make it fail.
func (a claim) keeps(api API, namespace string, other claim) bool {
	serves := slices.Contains(a.shared, namespace) || slices.Contains(a.shared, scoped.AllNamespaces)
	if !serves || !a.apis[api.String()] {
		return false
	}
	return succeeded(a.csv) || a.compare(other) < 0
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
		shared := intersect(targets, served(d))
		if len(shared) == 0 {
			continue
		}
		if _, proven := ownerutil.OwnerIn(d, csv.Namespace, time.Time{}, c.Proofs); !proven {
			continue
		}
		out.shared = append(out.shared, shared...)
		if at := d.CreationTimestamp.Time; out.since.IsZero() || at.Before(out.since) {
			out.since = at
		}
	}
	slices.Sort(out.shared)
	if out.shared = slices.Compact(out.shared); len(out.shared) > 0 {
		out.apis = texts(csv)
	}
	return out, nil
}

// texts returns the texts of the APIs that a ClusterServiceVersion owns.
func texts(csv *operatorsv1alpha1.ClusterServiceVersion) map[string]bool {
	out := map[string]bool{}
	for _, api := range Of(csv) {
		out[api.String()] = true
	}
	return out
}

// excludes reports whether another operator prevents an operator with the claims in own from providing one of the APIs.
func (c Conflicts) excludes(ctx context.Context, other claim, own []claim, apis []API, targets []string) (bool, error) {
	group, err := c.Groups.OperatorGroup(ctx, other.csv.Namespace)
	if err != nil {
		return false, ignoreProblem(err)
	}
	theirs, err := c.Groups.Targets(ctx, group, c.Filter)
	if err != nil {
		return false, ignoreProblem(err)
	}
	account, err := c.Groups.AccountOf(ctx, group)
	if err != nil {
		return false, ignoreProblem(err)
	}
	apis = slices.DeleteFunc(slices.Clone(apis), func(api API) bool { return !other.apis[api.String()] })
	shared := intersect(intersect(targets, theirs), other.shared)
	for _, namespace := range shared[:min(len(shared), maxShared)] {
		granted := c.RBAC.LowerBound(rbac.SubjectOf(account.Identity()), namespace)
		if err := errors.Join(granted.ReadErrors...); err != nil {
			if limit := (*rbac.LimitError)(nil); errors.As(err, &limit) {
				return false, nil // nothing is installed as this account
			}
			return false, fmt.Errorf("determine the effective rules of the account of another OperatorGroup: %w", err)
		}
		set := granted.Set()
		for _, api := range apis {
			if err := ctx.Err(); err != nil {
				return false, err //nolint:wrapcheck // a wrapper adds nothing
			}
			kept := slices.ContainsFunc(own, func(mine claim) bool { return mine.keeps(api, namespace, other) })
			if !kept && set.Covers(managing(api)) {
				return true, nil
			}
		}
	}
	return false, nil
}

// managing returns the rule that the account of an operator must have in a namespace; otherwise, the operator's claim
// on the API is ignored there.
func managing(api API) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{api.Group}, Resources: []string{api.Plural}, Verbs: []string{"update"}}}
}

// ignoreProblem returns nil if another OperatorGroup has no usable account or targets, and therefore no claims.
func ignoreProblem(err error) error {
	if scoped.ReasonOf(err) != "" {
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
