package csv

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/deployment"
)

// noteEdits notes the images that somebody else has set in the operator's Deployments, with the command that brings the
// ClusterServiceVersion's back. Remit does not set them back: whoever set one manages that field, Remit forces none
// (docs/adr/0005), and two who insist would write for ever.
func (r *Reconciler) noteEdits(ctx context.Context, s *scope) error {
	for _, want := range s.deployments {
		live := &appsv1.Deployment{}
		err := r.client.Get(ctx, client.ObjectKeyFromObject(want), live)
		if err == nil && deployment.Of(live, s.owner) && deployment.Differs(live, want) {
			err = r.noteEdit(ctx, s, want)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get Deployment %s/%s: %w", want.Namespace, want.Name, err)
		}
	}
	return nil
}

// noteEdit reads the Deployment live: the cache does not keep who manages its fields.
func (r *Reconciler) noteEdit(ctx context.Context, s *scope, want *appsv1.Deployment) error {
	live := &appsv1.Deployment{}
	if err := r.lookup.Reader.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
		return err
	}
	var edits []string
	for _, e := range deployment.Edits(live, want) {
		edits = append(edits, fmt.Sprintf("container %s runs image %q, which %q set, in the place of %q", e.Container, e.Image, e.Manager, e.Wanted))
	}
	if len(edits) == 0 {
		return nil
	}
	note := fmt.Sprintf("Deployment %s/%s was edited: %s; to have it made again as it was: %s", want.Namespace, want.Name, lines(edits), r.command(want))
	s.facts.Notes = append(s.facts.Notes, note)
	if state := &s.facts.Deployments; state.Problem != "" {
		state.Problem += "; " + note
	}
	return nil
}
