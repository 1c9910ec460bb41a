package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// maxStopping is the maximum time that the reset of a conversion waits for the operator to stop. A Pod that cannot
// terminate because of a lost node or a finalizer must not make objects in all namespaces unreadable.
const maxStopping = 5 * time.Minute

// errRunning is returned if a conversion is not reset because the operator may still be running. The deletion of the
// operator's last Deployment triggers another reconcile.
var errRunning = errors.New("the operator's Pods have not terminated yet")

// deploymentsToStop returns the CSV's Deployments, which must be deleted before a conversion is reset, and records in
// the scope how many Deployments of the operator still exist. Without the conversion, the API server drops fields that
// the requested version does not have. An operator that is still running would read objects without these fields and
// remove the fields from the stored objects with its next update (docs/adr/0041).
func (r *Reconciler) deploymentsToStop(ctx context.Context, s *scope) ([]client.Object, error) {
	list := &appsv1.DeploymentList{}
	if err := r.Client.List(ctx, list, client.InNamespace(s.csv.Namespace)); err != nil {
		return nil, fmt.Errorf("list Deployments in namespace %q: %w", s.csv.Namespace, err)
	}
	var out []client.Object
	for i := range list.Items {
		d := &list.Items[i]
		if !s.owner.Owns(d) || s.belongsToSibling(d) {
			continue
		}
		s.running++
		if d.Labels[names.LabelOwner] == ownerutil.LabelValue(s.csv.Name) {
			out = append(out, d)
		}
	}
	if s.running == 0 || s.csv.DeletionTimestamp == nil {
		return out, nil
	}
	left := s.csv.DeletionTimestamp.Add(maxStopping).Sub(r.Clock.Now())
	if left <= 0 {
		s.running = 0
		r.Recorder.Eventf(s.csv, nil, corev1.EventTypeWarning, eventStopping, "Finalize", "%s",
			status.Note(fmt.Sprintf("resetting the conversions of CustomResourceDefinitions, although the operator's Deployments still exist %s after the ClusterServiceVersion was deleted", maxStopping)))
		return nil, nil
	}
	s.after = left
	return out, nil
}

// stop starts the deletion of a Deployment. The Deployment exists until the garbage collector has removed its Pods.
func (r *Reconciler) stop(ctx context.Context, s *scope, account client.Client, d *appsv1.Deployment) error {
	if d.DeletionTimestamp != nil {
		return nil
	}
	if err := r.remove(ctx, s, account, d, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return err
	}
	r.Recorder.Eventf(s.csv, d, corev1.EventTypeNormal, eventStopping, "Finalize", "%s",
		status.Note("deleted Deployment "+d.Namespace+"/"+d.Name+": conversions will be reset when its Pods have terminated, so that the operator does not overwrite objects that are no longer converted"))
	return nil
}

func isDeployment(obj client.Object) bool {
	_, ok := obj.(*appsv1.Deployment)
	return ok
}

// convertedBySibling reports whether another version of the lineage that is not being deleted converts a
// CustomResourceDefinition.
func (s *scope) convertedBySibling(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range s.siblings {
		converts := func(d operatorsv1alpha1.WebhookDescription) bool {
			return d.Type == operatorsv1alpha1.ConversionWebhook && slices.Contains(d.ConversionCRDs, crd.Name)
		}
		if c.DeletionTimestamp == nil && slices.ContainsFunc(c.Spec.WebhookDefinitions, converts) {
			return true
		}
	}
	return false
}

// belongsToSibling reports whether a Deployment belongs to another version that is not being deleted.
func (s *scope) belongsToSibling(d *appsv1.Deployment) bool {
	c := s.siblings.byOwner(d.Labels[names.LabelOwner])
	return c != nil && c.DeletionTimestamp == nil
}
