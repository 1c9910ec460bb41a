package csv

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/keyed"
)

// noteEdits reports images in the operator's Deployments that another field manager has set, with the command that restores the
// images of the ClusterServiceVersion. Remit does not restore them itself: the other manager owns the field, Remit never forces
// ownership (docs/adr/0005), and two managers that both force ownership would overwrite each other's changes forever.
func (r *Reconciler) noteEdits(ctx context.Context, s *scope) error {
	answers := map[string]edited{}
	for _, want := range s.deployments {
		live := &appsv1.Deployment{}
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), live)
		if err == nil && deployment.Of(live, s.owner) {
			err = r.noteEdit(ctx, s, live, want, answers)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get Deployment %s/%s: %w", want.Namespace, want.Name, err)
		}
	}
	r.edits.keep(client.ObjectKeyFromObject(s.csv), answers)
	return nil
}

// noteEdit reports who edited a Deployment, and adds the result to answers.
func (r *Reconciler) noteEdit(ctx context.Context, s *scope, cached, want *appsv1.Deployment, answers map[string]edited) error {
	if len(deployment.OtherImages(cached, want)) == 0 {
		return nil
	}
	answer, known := r.edits.cached(client.ObjectKeyFromObject(s.csv), cached, want)
	if !known {
		live := &appsv1.Deployment{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
			return err
		}
		answer = newEdited(live, want)
	}
	answers[want.Name] = answer
	if len(answer.edits) == 0 {
		return nil
	}
	var changes []string
	for _, e := range answer.edits {
		changes = append(changes, fmt.Sprintf("container %s runs image %q instead of %q (set by %q)", e.Container, e.Image, e.Wanted, e.Manager))
	}
	note := fmt.Sprintf("Deployment %s/%s was edited: %s; to recreate it: %s", want.Namespace, want.Name, lines(changes), r.command(want))
	s.facts.Notes = append(s.facts.Notes, note)
	if state := &s.facts.Deployments; state.Problem != "" {
		state.Problem += "; " + note
	}
	return nil
}

// maxEdited is the maximum number of edited Deployments per ClusterServiceVersion that edits caches.
const maxEdited = 100

// edited describes the edits in one resource version of a Deployment.
type edited struct {
	uid              types.UID
	version, manager string
	others, edits    []deployment.Edit
}

func newEdited(live, want *appsv1.Deployment) edited {
	return edited{
		uid: live.UID, version: live.ResourceVersion, manager: apply.Manager(want.Labels),
		others: deployment.OtherImages(live, want), edits: deployment.Edits(live, want),
	}
}

// edits caches, for each existing ClusterServiceVersion, who edited its Deployments. The informer cache omits managed
// fields, so without this cache, a webhook that replaces images would cause a live read of each Deployment in each
// reconcile.
type edits struct {
	keyed.Map[client.ObjectKey, map[string]edited]
}

// cached returns the cached result if it is about the same version and manager of the live Deployment and the same wanted images.
func (e *edits) cached(csv client.ObjectKey, live, want *appsv1.Deployment) (edited, bool) {
	answer, ok := e.Get(csv)[want.Name]
	ok = ok && answer.uid == live.UID && answer.version == live.ResourceVersion && answer.manager == apply.Manager(want.Labels) &&
		slices.Equal(answer.others, deployment.OtherImages(live, want))
	return answer, ok
}

// keep replaces the cached results for a ClusterServiceVersion.
func (e *edits) keep(csv client.ObjectKey, answers map[string]edited) {
	if len(answers) == 0 || len(answers) > maxEdited {
		e.Delete(csv)
		return
	}
	e.Set(csv, answers)
}
