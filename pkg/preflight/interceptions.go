package preflight

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Interceptions determines what the live webhooks of an install may still intercept (docs/adr/0089).
type Interceptions struct {
	// Reader reads Namespaces and ServiceAccounts from the cache.
	Reader client.Reader
	RBAC   rbac.Listers
	Scopes webhook.Scopes
	// Identities are those of which one must have the permissions.
	Identities []scoped.Identity
	// Confirmer asks the API server about permissions that RBAC does not grant, and caches the answers under keys that begin with Asker.
	Confirmer *Confirmer
	Asker     string
	// Proofs prove which bindings installs created.
	Proofs ownerutil.Proofs
}

// Cut removes from a webhook configuration what none of the identities permits, and returns what it removed. An error means that
// nothing was removed, and that this could not be determined for all webhooks: one of them must not protect the others.
func (i Interceptions) Cut(ctx context.Context, obj *unstructured.Unstructured) ([]webhook.Cut, error) {
	var failed error
	scopes := webhook.Remembered(webhook.First(webhook.Builtin, i.Scopes))
	cuts, err := webhook.Narrow(obj, scopes, func(name string, d webhook.Demand, namespace string) bool {
		held, err := i.held(ctx, apply.Describe(obj)+" "+name, name, d, namespace)
		if failed == nil {
			failed = err
		}
		return held || err != nil
	})
	if err == nil && len(cuts) == 0 {
		err = failed
	}
	return cuts, err
}

// held reports whether one of the identities meets a demand in a namespace. A permission that RBAC does not grant is missing
// only if the API server confirms this. Nothing is intercepted in a namespace that does not exist, and the install removes
// it from the webhook.
func (i Interceptions) held(ctx context.Context, asker, name string, d webhook.Demand, namespace string) (bool, error) {
	if namespace != rbac.ClusterScope {
		err := i.Reader.Get(ctx, types.NamespacedName{Name: namespace}, &corev1.Namespace{})
		if err != nil {
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
	}
	asker = fmt.Sprintf("%s %s %t", asker, namespace, len(d.Cluster) > 0)
	for _, identity := range i.Identities {
		report, err := i.examine(ctx, asker, identity, hooks.Demanded(name, d, namespace), false)
		if err == nil && report.Unasked {
			report, err = i.examine(ctx, asker+" tokens", identity, hooks.Demanded(name, d, namespace), true)
		}
		switch {
		case err != nil:
			return false, err
		case !report.Clear(), report.Unasked: // users of the namespace determine how many questions there are
			continue
		case len(report.Unknown) > 0:
			return false, Undecided(report)
		}
		return true, nil
	}
	return false, nil
}

// examine returns what an identity is missing to meet needs. tokens replaces the permissions of ServiceAccounts by that to request their tokens.
func (i Interceptions) examine(ctx context.Context, asker string, identity scoped.Identity, demanded []Need, tokens bool) (Report, error) {
	identities := Identities{Account: identity, RBAC: i.RBAC, Proofs: i.Proofs, Tokens: tokens, In: func(namespace string) ([]string, error) {
		return scoped.ServiceAccounts(ctx, i.Reader, namespace)
	}}
	needs, err := identities.Resolve(demanded)
	if err != nil {
		return Report{}, err
	}
	for k := range needs {
		needs[k].Granted = false // the API server is asked about permissions of other ServiceAccounts too
	}
	report := Examine(identity, needs, func(namespace string) rbac.Permissions {
		return i.RBAC.LowerBound(rbac.SubjectOf(identity), namespace)
	})
	return i.Confirmer.Confirm(ctx, fmt.Sprintf("%s%s %s", i.Asker, identity, asker), report), nil
}

// DescribeCuts describes, in a text of about limit bytes, what was removed.
func DescribeCuts(cuts []webhook.Cut, limit int) string {
	list := make([]string, 0, len(cuts))
	for _, c := range cuts {
		list = append(list, c.String())
	}
	return status.Lines(list, limit)
}

// Undecided returns the error for a check in which the API server could not determine whether an identity may read and
// write what a webhook intercepts. In this case, other writes can still be tried because the API server authorizes
// them, but only this check bounds what a webhook receives (docs/adr/0013).
func Undecided(report Report) error {
	f := append(report.Doubts(), report.Unknown...)[0]
	return fmt.Errorf("cannot determine whether %s may %s: %s", report.Identity, f.Cause, f.Why)
}
