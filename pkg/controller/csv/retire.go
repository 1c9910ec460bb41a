package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// retire deletes, as the account, the roles and bindings of earlier versions once this version has succeeded. These
// versions are being replaced, or were deleted and left the objects behind. If the account is not allowed to delete
// some of the objects, retire adds a note with the commands that delete them.
func (r *Reconciler) retire(ctx context.Context, s *scope) error {
	account, barred := s.writer(warrant.Retire)
	if barred != nil || s.csv.Status.Phase != phaseSucceeded || s.turn.unfinished {
		return nil
	}
	earlier, err := r.earlier(ctx, s)
	if err != nil {
		return err
	}
	var remain []string
	why := ""
	for _, obj := range earlier {
		err := s.turn.remove(taskRetire, obj, func() error { return r.remove(ctx, s, account, obj) })
		switch {
		case errors.Is(err, errTurn):
			s.interrupt(taskRetire, len(earlier))
			return nil
		case err == nil:
			log.FromContext(ctx).Info("Removed an object of an earlier version", "object", apply.Describe(obj))
		case !isDenied(err):
			return err
		case !isGarbageCollected(obj, s.csv.Namespace):
			remain = append(remain, r.command(obj))
			why = summary(err)
		}
	}
	if len(remain) > 0 {
		s.facts.Notes = append(s.facts.Notes, fmt.Sprintf("objects of an earlier version remain (%s); to clean up, run: %s", why, lines(remain)))
	}
	return nil
}

// removeReplaced deletes, as the account, a CSV that was replaced; finalize and the garbage collector delete its
// objects. If the account is not allowed to delete the CSV, the transition's message contains the command that deletes
// it.
func (r *Reconciler) removeReplaced(ctx context.Context, s *scope) (Transition, error) {
	t := to(phaseDeleting, reasonReplaced, messageReplaced)
	account, err := r.cleaner(ctx, s)
	if err == nil {
		err = r.remove(ctx, s, account, s.csv)
	}
	switch {
	case err == nil:
		s.deleted = true
	case isDenied(err) || scoped.ReasonOf(err) != "":
		t.Message += " " + summary(err) + ": " + r.command(s.csv)
	default:
		return t, err
	}
	return t, nil
}

// earlier lists the lineage's RBAC objects that were created for versions before this version. The cache may show an
// object before its CSV, so earlier asks the API server whether the CSV of an object exists before treating the object
// as left behind.
func (r *Reconciler) earlier(ctx context.Context, s *scope) ([]client.Object, error) {
	all, err := r.rbacOfLineage(ctx, s.owner)
	if err != nil {
		return nil, err
	}
	var out []client.Object
	var live map[string]bool
	for _, obj := range all {
		label := obj.GetLabels()[names.LabelOwner]
		isPublished := obj.GetNamespace() == "" && s.justPublished[obj.GetName()]
		if label == "" || label == ownerutil.LabelValue(s.csv.Name) || isPublished {
			continue
		}
		if owner := s.siblings.byOwner(label); owner != nil {
			if s.siblings.isBefore(owner.Name, s.csv) {
				out = append(out, obj)
			}
			continue
		}
		if isGarbageCollected(obj, s.csv.Namespace) {
			continue
		}
		if live == nil {
			if live, err = r.liveOwners(ctx, s.csv.Namespace); err != nil {
				return nil, err
			}
		}
		if !live[label] {
			out = append(out, obj)
		}
	}
	return out, nil
}

// liveOwners returns the owner label values that refer to the CSVs in a namespace. It reads the CSVs from the API
// server.
func (r *Reconciler) liveOwners(ctx context.Context, namespace string) (map[string]bool, error) {
	out := map[string]bool{}
	err := scoped.EachVersion(ctx, r.Live, namespace, func(csv *metav1.PartialObjectMetadata) { out[ownerutil.LabelValue(csv.Name)] = true })
	return out, err
}

// isGarbageCollected reports whether garbage collection deletes an object together with the CSV that owns it.
func isGarbageCollected(obj client.Object, namespace string) bool {
	return obj.GetNamespace() == namespace && slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.Kind == operatorsv1alpha1.ClusterServiceVersionKind
	})
}

// command returns the shell command that removes an object.
func (r *Reconciler) command(obj client.Object) string {
	// A CustomResourceDefinition is kept; only its conversion webhook is removed.
	if _, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
		return "kubectl patch customresourcedefinition " + apply.ShellWord(obj.GetName()) + ` --type=merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'`
	}
	return apply.DeleteCommand(obj)
}
