package deployment

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// State is the combined state of an install's Deployments.
type State struct {
	// Installed is true if all Deployments are in the desired state; otherwise Problem is the reason.
	Installed bool
	// Untouched is true if all Deployments are installed and no spec has changed since it was written.
	Untouched bool
	// Ready is true if all Deployments are installed and available; otherwise Problem names a Deployment that is not.
	Ready bool
	// Stuck is true if a Deployment has exceeded its progress deadline.
	Stuck bool
	// Problem is the message for users, as the contract specifies; "" if there is none.
	Problem string
}

// Check returns the state of the wanted Deployments. It writes nothing. If some are not in the desired state, it
// returns the state of the first of them, in the CSV's order.
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

// CheckOne returns the state of one Deployment. It writes nothing.
func CheckOne(ctx context.Context, r client.Reader, owner ownerutil.Owner, d *appsv1.Deployment) (State, error) {
	live := &appsv1.Deployment{}
	exists, err := apply.Read(ctx, r, client.ObjectKeyFromObject(d), live)
	if err != nil {
		return State{}, err
	}
	if !exists {
		return State{Problem: fmt.Sprintf("missing deployment with name=%s", d.Name)}, nil
	}
	if live.DeletionTimestamp != nil || !installed(live, d, owner) || !hasLabels(live, d) {
		return State{Problem: fmt.Sprintf("deployment %q does not match the ClusterServiceVersion", d.Name)}, nil
	}
	state := State{Installed: true, Untouched: live.Generation == 1, Ready: true}
	if progress := Status(live, d.Spec.Replicas); !progress.Ready {
		state.Ready, state.Stuck = false, progress.Stuck
		state.Problem = fmt.Sprintf("waiting for deployment %s to become ready: %s", d.Name, progress.Text)
	}
	return state, nil
}

// Of reports whether a Deployment belongs to this version of the install.
func Of(live *appsv1.Deployment, owner ownerutil.Owner) bool {
	return owner.Owns(live) && OwnedBy(live, owner.UID)
}

// installed reports whether the live Deployment was written from the wanted spec. It compares hashes of the spec, as
// OLM does. Later changes by others (scaling, a sidecar, a mutating webhook) are kept; comparing all fields would
// overwrite them repeatedly.
func installed(live, want *appsv1.Deployment, owner ownerutil.Owner) bool {
	return Of(live, owner) && live.Labels[names.LabelDeploymentSpecHash] == want.Labels[names.LabelDeploymentSpecHash]
}

// hasLabels reports whether the live Deployment has all labels of the wanted one. The hash covers only the spec. A label with
// another value was set by someone else, and is kept like other edits.
func hasLabels(live, want client.Object) bool {
	have := live.GetLabels()
	for key := range want.GetLabels() {
		if _, ok := have[key]; !ok {
			return false
		}
	}
	return true
}

// OtherLabels returns a hash of the labels that a live Deployment does not have with the wanted value; "" if there are none. A change
// to labels does not change the generation, as one to the spec or the annotations does.
func OtherLabels(live, want client.Object) string {
	var out []string
	have := live.GetLabels()
	for key, label := range want.GetLabels() {
		if value, ok := have[key]; !ok || value != label {
			out = append(out, fmt.Sprintf("%s=%s %t", key, value, ok))
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return ownerutil.Hash(out...)
}
