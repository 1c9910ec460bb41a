package excess

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Remover returns a client of the optional identity that removes what neither the account nor the default account may
// delete (docs/adr/0075), or a *scoped.Error if it cannot be used. The listers track the enrollment of the identity.
type Remover func(ctx context.Context, listers rbac.Listers) (client.Client, error)

// Client returns the client of the identity. It returns nil and the reason if there is none: the reason is "why", the
// refusal of the identity that was tried before, unless the optional identity exists but must not be used.
func (r Remover) Client(ctx context.Context, listers rbac.Listers, why error) (own client.Client, reason, err error) {
	if r == nil {
		return nil, why, nil
	}
	own, err = r(ctx, listers)
	switch scoped.ReasonOf(err) {
	case "":
		return own, nil, err
	case scoped.AccountNotEnrolled:
		return nil, why, nil // the optional component is not installed
	}
	return nil, err, nil
}
