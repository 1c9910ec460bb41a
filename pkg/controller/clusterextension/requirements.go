package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/requirement"
)

// checkRequirements checks what the bundle requires of the cluster, unless its version is already installed: the version of
// Kubernetes, kinds, and other operators.
func checkRequirements(ctx context.Context, s *run) (outcome, error) {
	if s.resolved.Bundle == nil || s.isInstalled() {
		return proceed(), nil
	}
	list := &olmv1.ClusterExtensionList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return outcome{}, fmt.Errorf("list ClusterExtensions: %w", err)
	}
	catalogs, err := s.catalogs(ctx)
	if err != nil {
		return outcome{}, err
	}
	cluster := assess.Cluster{Lookups: s.lookups, Extensions: list.Items, Catalogs: catalogs, Indexes: s.indexes}
	unmet, err := cluster.Unmet(ctx, s.ext, s.rendered.CSV, s.resolved.Bundle)
	switch {
	case err != nil:
		return outcome{}, err
	case len(unmet) > 0:
		s.awaitsKinds = true
		return blocked(s.aboutBundle(errors.New(strings.Join(unmet, "; ")))), nil
	}
	return proceed(), nil
}

func (s *run) world() requirement.World {
	return requirement.World{Reader: s.Client, Mapper: s.Client.RESTMapper(), ServerVersion: s.ServerVersion, Unserved: s.unserved}
}
