package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/step"
)

// maxCompared is the maximum number of objects that are read for one report.
const maxCompared = 2000

// fillDeleted reports deleted objects of each group's installs, and deleted InstallPlans that Subscriptions name.
// Tenants control which objects are read, because the names come from statuses and plans. Each group therefore gets a
// share of the requests, so that a tenant with many names cannot hide the deleted objects of other tenants.
func (w *world) fillDeleted(ctx context.Context, c client.Reader, r *Report) error {
	left := maxCompared
	for i := range r.OperatorGroups {
		g := &r.OperatorGroups[i]
		w.fillDeletedPlans(g)
		part := left / (len(r.OperatorGroups) - i)
		budget := part
		err := w.fillDeletedObjects(ctx, c, g, &budget)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			g.Notes = append(g.Notes, fmt.Sprintf("cannot determine whether objects were deleted: %v", err))
		case budget < 0:
			g.Notes = append(g.Notes, fmt.Sprintf("only the first %d objects were read: other objects may have been deleted; select a namespace with -n", part))
		}
		left -= part - max(budget, 0)
	}
	return nil
}

// fillDeletedPlans notes InstallPlans that Subscriptions name but that do not exist. A complete InstallPlan is a record, so no
// action is required. If the InstallPlan was not complete, objects may be missing until another one is complete.
func (w *world) fillDeletedPlans(g *Group) {
	exists := map[string]bool{}
	for i := range w.plans {
		if w.plans[i].Namespace == g.Namespace {
			exists[w.plans[i].Name] = true
		}
	}
	for i := range w.subscriptions {
		sub := &w.subscriptions[i]
		if sub.Namespace != g.Namespace || !w.complete || sub.Status.InstallPlanRef == nil || exists[sub.Status.InstallPlanRef.Name] {
			continue
		}
		what := "was deleted. The operators that it installed continue to run, and the next version gets " +
			"its own plan; until then, unneeded permissions and deleted objects are not reported"
		if status.PlanWasIncomplete(&sub.Status) {
			what = "was deleted before it was complete. Remit creates another one when it can; until that is complete, objects may be missing, which are not reported"
		}
		g.Notes = append(g.Notes, fmt.Sprintf("InstallPlan %s of Subscription %s %s", sub.Status.InstallPlanRef.Name, sub.Name, what))
	}
}

// fillDeletedObjects reports the deleted objects of the group's installed versions.
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
	steps, err := w.steps(ctx, g, installed, true)
	if err != nil {
		return err
	}
	w.noteUnreadable(g, installed, steps)
	return fillDeletedSteps(ctx, c, g, steps, budget)
}

// noteUnreadable notes the installed versions whose objects are unknown because the InstallPlan does not contain the
// manifests. A version without a plan has no such objects.
func (w *world) noteUnreadable(g *Group, installed map[string]bool, steps []step.Step) {
	unread := map[string]bool{}
	for i := range w.plans {
		for _, name := range w.plans[i].Spec.ClusterServiceVersionNames {
			if w.plans[i].Namespace == g.Namespace && w.plans[i].Status.Phase == operatorsv1alpha1.InstallPlanPhaseComplete && installed[name] {
				unread[name] = true
			}
		}
	}
	for _, s := range steps {
		delete(unread, s.Owner.CSV)
	}
	if len(unread) > 0 {
		g.Notes = append(g.Notes, fmt.Sprintf("cannot determine whether objects of %s were deleted: the InstallPlan does not contain the manifests of its bundles",
			listed(slices.Sorted(maps.Keys(unread)))))
	}
}

// fillDeletedSteps adds one block per version, with the objects of its steps that were deleted.
func fillDeletedSteps(ctx context.Context, c client.Reader, g *Group, steps []step.Step, budget *int) error {
	var csvs []string
	deleted := map[string][]string{}
	for _, s := range steps {
		isDeleted, err := readDeleted(ctx, c, s.Object, budget)
		if err != nil {
			return err
		}
		if !isDeleted {
			continue
		}
		if deleted[s.Owner.CSV] == nil {
			csvs = append(csvs, s.Owner.CSV)
		}
		deleted[s.Owner.CSV] = append(deleted[s.Owner.CSV], apply.Describe(s.Object))
	}
	for _, csv := range csvs {
		g.Blocked = append(g.Blocked, deletedBlock(csv, deleted[csv], fmt.Sprintf("To restore what was deleted, delete the ClusterServiceVersion: "+
			"Remit installs this version again, and the operator restarts: kubectl delete csv %s -n %s", csv, g.Namespace)))
	}
	return nil
}

// fillDeletedSecrets reports deleted Secrets with certificates. The statuses do not report them, because Remit is not allowed to
// watch Secrets.
func (w *world) fillDeletedSecrets(ctx context.Context, c client.Reader, g *Group, csv *operatorsv1alpha1.ClusterServiceVersion, budget *int) error {
	var deleted []string
	for _, r := range csv.Status.RequirementStatus {
		if r.Kind != "Secret" || r.Group != "" || r.Name == "" { // an entry without a name is a required native API
			continue
		}
		secret := apply.Reference(corev1.SchemeGroupVersion.WithKind("Secret"), csv.Namespace, r.Name)
		isDeleted, err := readDeleted(ctx, c, secret, budget)
		if err != nil {
			return err
		}
		if isDeleted {
			deleted = append(deleted, apply.Describe(secret))
		}
	}
	if len(deleted) > 0 {
		g.Blocked = append(g.Blocked, deletedBlock(csv.Name, deleted, "Remit recreates deleted Secrets within 10 minutes"))
	}
	return nil
}

// deletedBlock reports the deleted objects of one version, with one remedy for all of them.
func deletedBlock(csv string, objects []string, remedy string) Block {
	verb := "was"
	if len(objects) > 1 {
		verb = "were"
	}
	return Block{Kind: operatorsv1alpha1.ClusterServiceVersionKind, Name: csv, Condition: "ObjectDeleted",
		Message: fmt.Sprintf("%s %s deleted. %s", listed(objects), verb, remedy)}
}

// maxListed bounds how many deleted objects a message names.
const maxListed = 20

func listed(objects []string) string {
	if more := len(objects) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(objects[:maxListed], ", "), more)
	}
	return strings.Join(objects, ", ")
}

// readDeleted reports whether an object does not exist. It returns false if the budget is used up or the user is not
// allowed to read the object.
func readDeleted(ctx context.Context, c client.Reader, obj *unstructured.Unstructured, budget *int) (bool, error) {
	if *budget--; *budget < 0 {
		return false, nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(obj.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(obj), live)
	switch {
	case err == nil, apierrors.IsForbidden(err):
		return false, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return true, nil
	}
	return false, fmt.Errorf("get %s: %w", apply.Describe(obj), err)
}
