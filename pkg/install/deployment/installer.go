package deployment

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// MaxWritten is the maximum number of Deployments that one Install changes, so that an install with many of them does not delay
// those of others.
const MaxWritten = 50

// Unfinished is the error of an Install that has changed MaxWritten Deployments, and has to be repeated to change the others. Other
// objects that are written in turns have the same limit and report their progress in the same way.
type Unfinished struct {
	// Done is the number of objects that are in the desired state, of All.
	Done, All int
	// What describes the objects, and what has been done to them.
	What string
}

// Error returns the progress in tenths, so that a status with it changes at most ten times.
func (e *Unfinished) Error() string {
	return fmt.Sprintf("at least %d%% of the %d %s", 10*e.Done/e.All*10, e.All, e.What)
}

// written is what Install does to Deployments.
const written = "deployments have been written"

// Installer writes the Deployments of one install.
type Installer struct {
	// Account is a client authenticated as the account. It performs all writes.
	Account client.Client
	// Facts reads Deployments, preferably from a cache. It is used only to skip unnecessary writes.
	Facts client.Reader
	// Before is called before an existing Deployment is changed; it may be nil. try sends the change as a dry run.
	Before func(ctx context.Context, d *appsv1.Deployment, try func(context.Context) error) error
	// Hold reports whether the Deployments after d must wait for d; nil means that they never wait.
	Hold func(d *appsv1.Deployment) bool
	// IsOver reports whether Install must stop because it has taken long; nil means that it need not. changed is the number of Deployments
	// that it has changed: those that it only compared come first again the next time.
	IsOver func(changed int) bool
}

// Install applies the wanted Deployments in order, and then deletes those that the CSV owns but that are no longer
// wanted. It sends no requests about those that Facts shows in the desired state. If Hold reports that the remaining
// Deployments must wait, Install stops without an error. It returns a description of each change, and *Unfinished after
// MaxWritten Deployments, or if IsOver returns true.
func (i Installer) Install(ctx context.Context, owner ownerutil.Owner, want []*appsv1.Deployment) ([]string, error) {
	var changed []string
	tried := false
	sent := 0 // without those that are unchanged: the next Install would begin with them again
	for n, d := range want {
		now, err := CheckOne(ctx, i.Facts, owner, d)
		if err != nil {
			return changed, err
		}
		if !now.Untouched {
			if sent == MaxWritten || tried && i.IsOver != nil && i.IsOver(sent) {
				return changed, &Unfinished{Done: n, All: len(want), What: written}
			}
			tried = true
			done, err := i.Ensure(ctx, owner, d)
			if err != nil {
				return changed, err
			}
			if done.Result != apply.Unchanged {
				sent++
				changed = append(changed, string(done.Result)+" "+apply.Describe(d))
			}
		}
		if i.Hold != nil && i.Hold(d) {
			return changed, nil
		}
	}
	deleted, err := i.deleteOrphans(ctx, owner, want, MaxWritten-sent)
	return append(changed, deleted...), err
}

// deleteOrphans deletes at most the given number of Deployments that the CSV owns but that are no longer wanted.
func (i Installer) deleteOrphans(ctx context.Context, owner ownerutil.Owner, want []*appsv1.Deployment, most int) ([]string, error) {
	orphans, err := Orphans(ctx, i.Facts, owner, want)
	if err != nil {
		return nil, err
	}
	var deleted []string
	for n, o := range orphans {
		if n == most {
			return deleted, &Unfinished{Done: len(want), All: len(want) + len(orphans) - n, What: written}
		}
		if err := apply.Delete(ctx, i.Account, o, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return deleted, err
		}
		deleted = append(deleted, "Deleted "+apply.Describe(o))
	}
	return deleted, nil
}

// Ensured is the result of Ensure.
type Ensured struct {
	Result apply.Result
	// Generation is that of the resulting Deployment.
	Generation int64
	// Edits describes the fields that other managers have changed and that were kept.
	Edits []string
}

// Ensure applies one Deployment. If the live Deployment was written from the same spec and another manager has since
// changed a field, such as an image or the number of replicas, Ensure keeps the change and restores only the other fields.
func (i Installer) Ensure(ctx context.Context, owner ownerutil.Owner, d *appsv1.Deployment) (Ensured, error) {
	obj, err := apply.Object(d)
	if err != nil {
		return Ensured{}, err
	}
	live, err := apply.Live(ctx, i.Account, obj)
	if err != nil {
		return Ensured{}, err
	}
	// Compare the hash of the spec. Defaults and equivalent quantities would make a comparison of all fields unreliable.
	written := isWritten(live, d, owner)
	if written && live.GetGeneration() == 1 && OtherLabels(live, d) == "" {
		return Ensured{Result: apply.Unchanged, Generation: 1}, nil
	}
	var edits []string
	if written {
		obj, edits = apply.WithoutEdits(live, obj)
	}
	if err := i.prepare(ctx, owner, d, live, obj); err != nil {
		return Ensured{}, WithRemedy(err, obj)
	}
	result, now, err := apply.From(ctx, i.Account, live, obj, owner)
	if apply.IsFieldConflict(err) && written {
		result, now, err = apply.Unchanged, live, nil
	}
	if err != nil {
		return Ensured{}, WithRemedy(err, obj)
	}
	return Ensured{Result: result, Generation: now.GetGeneration(), Edits: edits}, nil
}

// prepare calls Before if an existing Deployment of the install will be changed to obj.
func (i Installer) prepare(ctx context.Context, owner ownerutil.Owner, d *appsv1.Deployment, live, obj *unstructured.Unstructured) error {
	if live == nil || i.Before == nil || live.GetLabels()[names.LabelDeploymentSpecHash] == d.Labels[names.LabelDeploymentSpecHash] {
		return nil
	}
	if err := apply.Check(live, live, owner); err != nil {
		return err
	}
	return i.Before(ctx, d, func(ctx context.Context) error {
		_, _, err := apply.From(ctx, client.NewDryRunClient(i.Account), live, obj, owner)
		return err
	})
}

// WithRemedy adds a remedy to an apply error if another field manager owns a field of the Deployment: the command that
// resolves the conflict. It returns all other errors unchanged.
func WithRemedy(err error, obj *unstructured.Unstructured) error {
	if !apply.IsFieldConflict(err) {
		return err
	}
	return fmt.Errorf("%w; to recreate it without the edits: kubectl delete deployment %s -n %s", err, obj.GetName(), obj.GetNamespace())
}

// isWritten reports whether a Deployment was written from exactly this spec, regardless of later changes by others. live is nil if
// the Deployment did not exist.
func isWritten(live *unstructured.Unstructured, want *appsv1.Deployment, owner ownerutil.Owner) bool {
	d := &appsv1.Deployment{}
	return live != nil && apply.Decode(live, d) == nil && d.DeletionTimestamp == nil && installed(d, want, owner)
}

// InPlace reports whether a live, cached object belongs to this lineage and has every wanted field.
func InPlace(live client.Object, want *unstructured.Unstructured, owner ownerutil.Owner) bool {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false
	}
	expected := want.DeepCopy()
	delete(expected.Object, "apiVersion") // typed reads leave apiVersion and kind empty
	delete(expected.Object, "kind")
	return owner.Owns(live) && live.GetDeletionTimestamp() == nil && apply.Has(content, expected.Object)
}

// Orphans returns the Deployments that the CSV owns but that are not wanted. It returns none if the CSV has no UID.
func Orphans(ctx context.Context, r client.Reader, owner ownerutil.Owner, want []*appsv1.Deployment) ([]*appsv1.Deployment, error) {
	if owner.UID == "" {
		return nil, nil
	}
	list := &appsv1.DeploymentList{}
	if err := r.List(ctx, list, client.InNamespace(owner.Namespace), owner.Marked()); err != nil {
		return nil, fmt.Errorf("list Deployments in namespace %q: %w", owner.Namespace, err)
	}
	var out []*appsv1.Deployment
	for k := range list.Items {
		d := &list.Items[k]
		wanted := slices.ContainsFunc(want, func(w *appsv1.Deployment) bool { return w.Name == d.Name })
		if !wanted && d.DeletionTimestamp == nil && OwnedBy(d, owner.UID) && owner.Owns(d) {
			out = append(out, d)
		}
	}
	return out, nil
}

// OwnedBy reports whether an object has an owner reference with this UID.
func OwnedBy(obj metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}
