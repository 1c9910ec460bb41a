package provided

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// dispute decides which operator keeps the APIs of a ClusterServiceVersion in its targets. It reads each definition once.
type dispute struct {
	Conflicts

	// owner is the owner of the ClusterServiceVersion, and own contains the claims of its namespace.
	owner   ownerutil.Owner
	own     []claim
	apis    []API
	targets []string

	definitions map[string]definition
}

// definition is the CustomResourceDefinition or APIService of an API. obj is nil if it does not exist, and isOwn is true if the
// lineage of the dispute is proven to have installed it.
type definition struct {
	obj   client.Object
	isOwn bool
}

// excludes reports whether another operator prevents the ClusterServiceVersion from providing one of its APIs.
func (d *dispute) excludes(ctx context.Context, other claim) (bool, error) {
	group, err := d.Groups.OperatorGroup(ctx, other.csv.Namespace)
	if err != nil {
		return false, ignoreProblem(err)
	}
	theirs, err := d.Groups.Targets(ctx, group, d.Filter)
	if err != nil {
		return false, ignoreProblem(err)
	}
	account, err := d.Groups.AccountOf(ctx, group)
	if err != nil {
		return false, ignoreProblem(err)
	}
	claimed := slices.DeleteFunc(slices.Clone(d.apis), func(api API) bool { return !other.apis[api.String()] })
	shared := intersect(intersect(d.targets, theirs), other.shared)
	for _, namespace := range shared[:min(len(shared), maxShared)] {
		granted := d.RBAC.LowerBound(rbac.SubjectOf(account.Identity()), namespace)
		if err := errors.Join(granted.ReadErrors...); err != nil {
			if limit := (*rbac.LimitError)(nil); errors.As(err, &limit) {
				return false, nil // nothing is installed as this account
			}
			return false, fmt.Errorf("determine the effective rules of the account of another OperatorGroup: %w", err)
		}
		if found, err := d.excludesIn(ctx, namespace, claimed, other, granted.Set()); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// excludesIn reports whether another operator, whose account has the granted permissions, keeps one of the claimed APIs in a namespace.
func (d *dispute) excludesIn(ctx context.Context, namespace string, claimed []API, other claim, granted rbac.Set) (bool, error) {
	for _, api := range claimed {
		if err := ctx.Err(); err != nil {
			return false, err //nolint:wrapcheck // a wrapper adds nothing
		}
		if !granted.Covers(managing(api)) {
			continue
		}
		if yields, err := d.yields(ctx, api, namespace, other); yields || err != nil {
			return yields, err
		}
	}
	return false, nil
}

// yields reports whether the ClusterServiceVersion leaves an API in a namespace to another operator. An operator that has succeeded keeps
// its APIs, so that no other tenant can make it fail.
func (d *dispute) yields(ctx context.Context, api API, namespace string, other claim) (bool, error) {
	isOlder := false
	for _, mine := range d.own {
		if !mine.serves(api, namespace) {
			continue
		}
		if succeeded(mine.csv) {
			return false, nil
		}
		isOlder = isOlder || mine.compare(other) < 0
	}
	defined, err := d.definition(ctx, api)
	if err != nil || defined.isOwn {
		return false, err
	}
	if !isOlder {
		return true, nil
	}
	return d.installed(ctx, other, defined.obj)
}

// definition returns the definition of an API.
func (d *dispute) definition(ctx context.Context, api API) (definition, error) {
	key := fmt.Sprint(api.Served, " ", api.definedBy())
	found, known := d.definitions[key]
	if known {
		return found, nil
	}
	obj, err := define(ctx, d.Reader, api)
	if err != nil {
		return definition{}, err
	}
	if obj != nil {
		found = definition{obj: obj, isOwn: d.owner.Owns(obj)}
	}
	if d.definitions == nil {
		d.definitions = map[string]definition{}
	}
	d.definitions[key] = found
	return found, nil
}

// installed reports whether the lineage of another operator is proven to have installed a definition, which may be nil. It did not if the
// definition is older than the operator's namespace.
func (d *dispute) installed(ctx context.Context, other claim, obj client.Object) (bool, error) {
	if obj == nil || !other.owner.Marks(obj) {
		return false, nil
	}
	namespace := &corev1.Namespace{}
	exists, err := apply.Read(ctx, d.Reader, client.ObjectKey{Name: other.csv.Namespace}, namespace)
	if err != nil || !exists {
		return false, err
	}
	owner := other.owner
	owner.Since = namespace.CreationTimestamp.Time
	return owner.Owns(obj), nil
}
