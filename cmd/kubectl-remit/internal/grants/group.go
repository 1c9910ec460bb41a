package grants

import (
	"context"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// Group returns the OperatorGroup of a namespace and its target namespaces, as the user of the client sees them.
func Group(ctx context.Context, c client.Client, namespace string) (*operatorsv1.OperatorGroup, []string, error) {
	lookup := scoped.Lookup{Reader: c}
	group, err := lookup.OperatorGroup(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	targets, err := lookup.Targets(ctx, group, NamespaceFilter{c})
	return group, targets, err
}

// NamespaceFilter tells which namespaces an account may get, by what the user may read or ask of its rights.
type NamespaceFilter struct{ Client client.Client }

// Gettable implements scoped.NamespaceFilter.
func (s NamespaceFilter) Gettable(ctx context.Context, account scoped.Account, namespaces []string) ([]string, error) {
	rights, err := Cluster(ctx, s.Client, account.Key(), namespaces)
	if err != nil {
		return nil, err
	}
	return rights.Report(ctx, preflight.NamespaceNeeds(namespaces)).WithoutFindings(namespaces), nil
}
