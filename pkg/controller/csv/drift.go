package csv

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// firstPause and lastPause limit the pauses between two comparisons of a Deployment. The pause doubles with each
// restoration, so that a client that keeps removing a field does not cause a write each time.
const (
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// reportedPause is the shortest pause that the status mentions.
	reportedPause = 10 * time.Second
)

// compared is the result of comparing a Deployment with the ClusterServiceVersion.
type compared struct {
	uid types.UID
	// hash is that of the wanted spec, and generation the newest generation that was compared.
	hash       string
	generation int64
	// labels is a hash of the labels of the cached Deployment that were not as wanted.
	labels string
	at     time.Time
	// pause is the minimum time until the next comparison.
	pause time.Duration
	// failed is why removed fields could not be restored. paused is true while a newer generation waits for the pause to end.
	failed error
	paused bool
	// edits describes the fields that other clients have changed, and that are kept.
	edits []string
}

// covers reports whether a Deployment with this generation and these labels needs no other comparison.
func (c compared) covers(generation int64, labels string) bool {
	return generation <= c.generation && c.labels == labels && c.failed == nil
}

// drift contains the results for the Deployments of each existing ClusterServiceVersion, by name. The cached Deployments
// contain few fields, so that without the results, each reconcile would read the Deployments.
type drift struct {
	keyed.Map[client.ObjectKey, map[string]compared]
}

// restoreFields restores the fields that other clients have removed from the Deployments of an installed operator, and
// reports the fields that they have changed, which are kept (docs/adr/0005). It reads a Deployment once per generation and change of its labels.
// Other phases either write the Deployments anyway, or may not write them.
func (r *Reconciler) restoreFields(ctx context.Context, s *scope) error {
	account, barred := s.writer(warrant.Install)
	if s.facts.CSV.Status.Phase != phaseSucceeded || !s.facts.Deployments.Installed || barred != nil {
		return nil
	}
	key := client.ObjectKeyFromObject(s.csv)
	was, is := r.drift.Get(key), map[string]compared{}
	for _, want := range s.deployments {
		live := &appsv1.Deployment{}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
			return fmt.Errorf("get Deployment %s/%s: %w", want.Namespace, want.Name, err)
		}
		last, known := was[want.Name]
		if live.Generation <= 1 && !known && deployment.OtherLabels(live, want) == "" {
			continue // not changed since it was created
		}
		result, err := r.compare(ctx, s, account, last, live, want)
		if err != nil {
			return err
		}
		is[want.Name] = result
		s.noteDrift(want, result)
	}
	if len(is) == 0 {
		r.drift.Delete(key)
		return nil
	}
	r.drift.Set(key, is)
	return nil
}

// compare returns the result for a cached Deployment. It restores removed fields, unless this generation was already
// compared or the pause is not over.
func (r *Reconciler) compare(ctx context.Context, s *scope, account client.Client, was compared, live, want *appsv1.Deployment) (compared, error) {
	hash := want.Labels[names.LabelDeploymentSpecHash]
	if was.uid != live.UID || was.hash != hash {
		was = compared{uid: live.UID, hash: hash}
	}
	was.paused = false
	labels := deployment.OtherLabels(live, want)
	if was.covers(live.Generation, labels) {
		return was, nil
	}
	if left := was.at.Add(was.pause).Sub(s.facts.Now); left > 0 {
		s.wakeAfter(left)
		was.paused = was.failed == nil && was.pause >= reportedPause
		return was, nil
	}
	done, err := deployment.Installer{Account: account}.Ensure(ctx, s.owner, want)
	is := compared{uid: was.uid, hash: hash, generation: done.Generation, labels: labels, at: s.facts.Now, pause: max(was.pause, firstPause), edits: done.Edits}
	if s.facts.Now.Sub(was.at) > 2*lastPause {
		is.pause = firstPause
	}
	switch {
	case apierrors.IsConflict(err):
		return was, nil // the pending watch event triggers another reconcile
	case err != nil && !isReported(err):
		return was, err
	case err != nil:
		is.generation, is.failed = live.Generation, err
		is.pause = min(2*is.pause, lastPause)
		s.wakeAfter(is.pause)
	case done.Result != apply.Unchanged:
		is.pause = min(2*is.pause, lastPause)
		log.FromContext(ctx).Info("Restored fields of a Deployment", "deployment", want.Name, "account", s.account.Key().String())
	}
	return is, nil
}

// noteDrift reports what was not restored. Images are reported by noteEdits, and the number of replicas is often changed on
// purpose, for example by a HorizontalPodAutoscaler.
func (s *scope) noteDrift(d *appsv1.Deployment, result compared) {
	edits := slices.DeleteFunc(slices.Clone(result.edits), func(edit string) bool {
		return strings.HasPrefix(edit, "spec.replicas (") || strings.Contains(edit, "].image (by ")
	})
	if len(edits) > 0 {
		s.facts.Notes = append(s.facts.Notes, fmt.Sprintf("other clients changed these fields of %s, which are kept: %s", apply.Describe(d), bundle.Named(edits)))
	}
	if result.paused {
		s.facts.Notes = append(s.facts.Notes, fmt.Sprintf("other clients repeatedly change %s, whose fields are restored at increasing intervals", apply.Describe(d)))
	}
	if result.failed != nil {
		s.facts.Notes = append(s.facts.Notes, fmt.Sprintf("fields that other clients removed from %s cannot be restored: %s", apply.Describe(d), summary(result.failed)))
	}
}
