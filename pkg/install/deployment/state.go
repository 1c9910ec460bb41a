package deployment

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// State is how an install's Deployments stand, taken together.
type State struct {
	// Installed says that all are there as they should be; Problem says why not.
	Installed bool
	// Untouched says that all are installed and that nobody has changed a spec since it was written.
	Untouched bool
	// Ready says that all are installed and available; Problem says which is not.
	Ready bool
	// Stuck says that one has passed its own progress deadline.
	Stuck bool
	// Problem is for people, in the contract's words; "" where all is well.
	Problem string
}

// Check compares the wanted Deployments with those that exist, without writing. The first in the
// CSV's order that is not as it should be is the one that is named.
func Check(ctx context.Context, r client.Reader, owner ownerutil.Owner, want []*appsv1.Deployment) (State, error) {
	state := State{Installed: true, Untouched: true, Ready: true}
	for _, d := range want {
		one, err := CheckOne(ctx, r, owner, d)
		if err != nil || !one.Installed {
			return one, err
		}
		state.Untouched = state.Untouched && one.Untouched
		if !one.Ready && state.Ready {
			state.Ready, state.Stuck, state.Problem = false, one.Stuck, one.Problem
		}
	}
	orphans, err := Orphans(ctx, r, owner, want)
	if err == nil && len(orphans) > 0 {
		return State{Problem: fmt.Sprintf("deployment %q is no longer part of the ClusterServiceVersion", orphans[0].Name)}, nil
	}
	return state, err
}

// CheckOne is Check for one Deployment.
func CheckOne(ctx context.Context, r client.Reader, owner ownerutil.Owner, d *appsv1.Deployment) (State, error) {
	live := &appsv1.Deployment{}
	err := r.Get(ctx, client.ObjectKeyFromObject(d), live)
	switch {
	case apierrors.IsNotFound(err):
		return State{Problem: fmt.Sprintf("missing deployment with name=%s", d.Name)}, nil
	case err != nil:
		return State{}, fmt.Errorf("get Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	if live.DeletionTimestamp != nil || !installed(live, d, owner) {
		return State{Problem: fmt.Sprintf("deployment %q is not as the ClusterServiceVersion wants it", d.Name)}, nil
	}
	state := State{Installed: true, Untouched: untouched(live), Ready: true}
	if progress := Status(live, d.Spec.Replicas); !progress.Ready {
		state.Ready, state.Stuck = false, progress.Stuck
		state.Problem = fmt.Sprintf("waiting for deployment %s to become ready: %s", d.Name, progress.Text)
	}
	return state, nil
}

// untouched says that the spec is the one with which the Deployment was created.
func untouched(live *appsv1.Deployment) bool { return live.Generation == 1 }

// Of says whether a Deployment is of this install, and of no other version.
func Of(live *appsv1.Deployment, owner ownerutil.Owner) bool {
	return owner.Owns(live) && ownedBy(live, owner.UID)
}

// installed goes by the hash of what was written, as OLM does: what others change afterwards (a scale,
// a sidecar, a mutating webhook) is theirs, and a comparison of all fields would fight them for ever.
func installed(live, want *appsv1.Deployment, owner ownerutil.Owner) bool {
	return Of(live, owner) && live.Labels[names.LabelDeploymentSpecHash] == want.Labels[names.LabelDeploymentSpecHash]
}
