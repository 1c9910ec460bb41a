package grants

import (
	"context"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// Group returns the OperatorGroup of a namespace and its target namespaces, as far as the client's user is allowed to
// read them.
func Group(ctx context.Context, c client.Client, namespace string) (*operatorsv1.OperatorGroup, []string, error) {
	lookup := scoped.Lookup{Reader: c}
	group, err := lookup.OperatorGroup(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	targets, err := lookup.Targets(ctx, group, NamespaceFilter{c})
	return group, targets, err
}

// NamespaceFilter determines which namespaces an account is allowed to get. It reads RBAC and sends access reviews as
// the client's user.
type NamespaceFilter struct{ Client client.Client }

// Gettable implements scoped.NamespaceFilter.
func (f NamespaceFilter) Gettable(ctx context.Context, account scoped.Account, namespaces []string) ([]string, error) {
	permissions, err := Cluster(ctx, f.Client, account.Identity(), namespaces)
	if err != nil {
		return nil, err
	}
	return permissions.Report(ctx, preflight.NamespaceNeeds(namespaces)).WithoutFindings(namespaces), nil
}
