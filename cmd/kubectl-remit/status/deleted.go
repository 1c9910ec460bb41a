package status

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// maxCompared bounds how many objects one report reads.
const maxCompared = 2000

// fillDeleted adds what was deleted of each group's installs, and of the InstallPlans that Subscriptions name.
func (w *world) fillDeleted(ctx context.Context, c client.Reader, r *Report) error {
	budget := maxCompared
	for i := range r.OperatorGroups {
		g := &r.OperatorGroups[i]
		w.fillDeletedPlans(g)
		if err := w.fillDeletedObjects(ctx, c, g, &budget); err != nil {
			return err
		}
	}
	if budget < 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("only the first %d objects were read: whether others were deleted is not known; name a namespace with -n", maxCompared))
	}
	return nil
}

// fillDeletedPlans notes InstallPlans that are missing. They are records: nothing has to be done.
func (w *world) fillDeletedPlans(g *Group) {
	exists := map[string]bool{}
	for i := range w.plans {
		if w.plans[i].Namespace == g.Namespace {
			exists[w.plans[i].Name] = true
		}
	}
	for i := range w.subscriptions {
		sub := &w.subscriptions[i]
		if sub.Namespace == g.Namespace && w.complete && sub.Status.InstallPlanRef != nil && !exists[sub.Status.InstallPlanRef.Name] {
			g.Notes = append(g.Notes, fmt.Sprintf("InstallPlan %s of Subscription %s was deleted. What it installed keeps running, and the next version gets a plan "+
				"of its own; until then, deleted objects and permissions that are not needed are not reported", sub.Status.InstallPlanRef.Name, sub.Name))
		}
	}
}

// fillDeletedObjects reads the objects that the installed versions consist of.
func (w *world) fillDeletedObjects(ctx context.Context, c client.Reader, g *Group, budget *int) error {
	installed := map[string]bool{}
	for i := range w.csvs {
		csv := &w.csvs[i]
		if csv.Namespace != g.Namespace || csv.DeletionTimestamp != nil {
			continue
		}
		installed[csv.Name] = true
		if err := w.fillDeletedSecrets(ctx, c, g, csv, budget); err != nil {
			return err
		}
	}
	steps, err := w.steps(g, installed, true)
	if err != nil {
		return nil // fillHeld notes why
	}
	for _, s := range steps {
		remedy := fmt.Sprintf("To install it again: kubectl delete csv %s -n %s", s.Owner.CSV, g.Namespace)
		if err := fillDeletedObject(ctx, c, g, s.Object, s.Owner.CSV, remedy, budget); err != nil {
			return err
		}
	}
	return nil
}

// fillDeletedSecrets reads the Secrets with certificates, which Remit may not watch.
func (w *world) fillDeletedSecrets(ctx context.Context, c client.Reader, g *Group, csv *operatorsv1alpha1.ClusterServiceVersion, budget *int) error {
	for _, r := range csv.Status.RequirementStatus {
		if r.Kind != "Secret" || r.Group != "" {
			continue
		}
		secret := &unstructured.Unstructured{}
		secret.SetAPIVersion("v1")
		secret.SetKind("Secret")
		secret.SetNamespace(csv.Namespace)
		secret.SetName(r.Name)
		if err := fillDeletedObject(ctx, c, g, secret, csv.Name, "Remit creates it again within 10 minutes", budget); err != nil {
			return err
		}
	}
	return nil
}

// fillDeletedObject reads an object, unless the budget is used up or the user may not.
func fillDeletedObject(ctx context.Context, c client.Reader, g *Group, obj *unstructured.Unstructured, csv, remedy string, budget *int) error {
	if *budget--; *budget < 0 {
		return nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(obj.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(obj), live)
	switch {
	case err == nil, apierrors.IsForbidden(err):
		return nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		g.Blocked = append(g.Blocked, Block{Kind: operatorsv1alpha1.ClusterServiceVersionKind, Name: csv, Condition: "ObjectDeleted",
			Message: apply.Describe(obj) + " was deleted. " + remedy})
		return nil
	}
	return fmt.Errorf("get %s: %w", apply.Describe(obj), err)
}
