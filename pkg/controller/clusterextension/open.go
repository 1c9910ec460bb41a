package clusterextension

import (
	"context"
	"errors"
	"fmt"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// openClients reads the extension and its identity again, live, and creates the client for requests as the identity.
// Earlier phases send no requests as the identity, except that skipIfSettled may watch objects that were applied before.
func openClients(ctx context.Context, s *run) (outcome, error) {
	if err := s.checkCurrent(ctx); err != nil {
		return outcome{}, err
	}
	identity, exists, err := s.lookUp(ctx, s.Live)
	if err != nil {
		return outcome{}, err
	}
	if !exists || identity != s.identity {
		return outcome{}, errStale // the pending watch event wakes the extension
	}
	own, err := s.Clients.As(ctx, identity)
	var unusable *scoped.Error
	switch {
	case errors.As(err, &unusable) && unusable.Reason == scoped.AccountNotEnrolled:
		// RBAC allows this program to act as the identity. The API server's own cache may lag behind, or the API server may not support
		// constrained impersonation.
		return outcome{}, fmt.Errorf("%w", err)
	case errors.As(err, &unusable):
		s.unusable = unusable
		return waiting(unusable.Text()), nil
	case err != nil:
		return outcome{}, err
	}
	s.executor = &execute.Executor{Account: own, CRDs: own, Facts: s.Live, Cluster: s.Client, RBAC: s.RBAC, Pruned: execute.Pruned{}, Place: s.takePlace}
	return proceed(), nil
}
