package clusterextension

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
)

// maxStopping is the maximum time that the reset of a conversion waits for an operator to stop, counted from the
// deletion of its Deployment. A Pod that cannot terminate must not make objects unreadable.
const maxStopping = 5 * time.Minute

// conversions returns the lineage's CustomResourceDefinitions that have a conversion webhook of the operator.
func (s *run) conversions(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	_, converted, err := hooks.Remains(ctx, &found{Client: s.Client}, s.owner)
	return slices.DeleteFunc(converted, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return s.reset[crd.Name] }), err
}

// surplusConversions returns the lineage's CustomResourceDefinitions whose conversion webhook an earlier version served, and
// this version does not.
func (s *run) surplusConversions(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	converted, err := s.conversions(ctx)
	wanted := s.rendered.Hooks.Conversions()
	return slices.DeleteFunc(converted, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return slices.ContainsFunc(wanted, func(c webhook.Conversion) bool { return c.CRD == crd.Name })
	}), err
}

// resetConversions removes the conversion webhooks that this version does not serve. Otherwise, objects could not be
// read in all versions.
func (s *run) resetConversions(ctx context.Context, others []*unstructured.Unstructured) (outcome, error) {
	converted, err := s.surplusConversions(ctx)
	if err != nil || len(converted) == 0 {
		return outcome{}, err
	}
	why, err := s.resetAll(ctx, converted, others)
	switch {
	case err != nil:
		return s.failed(err)
	case why != "":
		return s.withDeadline(rolling(s.aboutRollout(why))), nil
	}
	return proceed(), nil
}

// resetAll removes conversion webhooks, as the identity, after the Deployments among objs have stopped. An operator that
// continued to run would read objects without the fields that exist only in other versions, and remove these fields when
// it writes (docs/adr/0041). Until the Deployments have stopped, resetAll returns what it waits for.
func (s *run) resetAll(ctx context.Context, converted []*apiextensionsv1.CustomResourceDefinition, objs []*unstructured.Unstructured) (why string, err error) {
	running, err := s.stop(ctx, objs)
	if err != nil {
		return "", err
	}
	if running != nil {
		s.wakeAfter(s.memory.nextDelay(s.key()))
		return fmt.Sprintf("waiting for the Pods of %s to terminate before the conversion of CustomResourceDefinition %s is reset",
			apply.Describe(running), converted[0].Name), nil
	}
	changed, err := s.installer().Reset(ctx, converted)
	if len(changed) > 0 {
		log.FromContext(ctx).Info("Reset conversions", "changes", changed, "identity", s.identity.String())
	}
	for _, crd := range converted {
		s.reset[crd.Name] = err == nil
	}
	return "", err
}

// stop deletes the Deployments among objects of the lineage, and returns one whose Pods may still run, or nil. A Deployment
// exists until the garbage collector has removed its Pods. It returns an apply.CollisionError for a Deployment with an owner
// reference to the extension but without a valid proof: its Pods would continue to run.
func (s *run) stop(ctx context.Context, objs []*unstructured.Unstructured) (running *unstructured.Unstructured, err error) {
	for _, obj := range objs {
		if !isDeployment(obj) {
			continue
		}
		if err := s.remove(ctx, obj, metav1.DeletePropagationForeground); err != nil {
			return nil, err
		}
		live, err := apply.Live(ctx, s.executor.Account, obj)
		if err != nil {
			return nil, err
		}
		if live == nil || s.isOverdue(live) {
			continue
		}
		switch err := apply.Check(live, live, s.owner); {
		case err == nil:
			running = live
		case deployment.OwnedBy(live, s.ext.UID):
			return nil, err
		}
	}
	return running, nil
}

func isDeployment(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().GroupKind() == schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}
}

// isOverdue reports whether the deletion of an object has taken longer than maxStopping.
func (s *run) isOverdue(live *unstructured.Unstructured) bool {
	at := live.GetDeletionTimestamp()
	return at != nil && s.Clock.Since(at.Time) > maxStopping
}
