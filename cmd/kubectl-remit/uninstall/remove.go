package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// tick is the interval at which the command checks whether objects still exist.
const tick = 300 * time.Millisecond

// remove deletes the operator and reports what remains. Custom resources are deleted first, so that the operator can remove
// their finalizers. The Subscription is deleted before the ClusterServiceVersions, which would be created again otherwise.
func (i *install) remove(ctx context.Context, o *Options) error {
	if o.DryRun {
		for _, obj := range i.all() {
			message.Fprintln(o.Out, i.describe(obj), "deleted (dry run)")
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	custom, rest := i.custom, i.all()[len(i.custom):]
	if err := i.delete(ctx, o, objects(custom)); err != nil {
		return err
	}
	if left := i.waitDeleted(ctx, objects(custom)); len(left) > 0 {
		return i.remains(o, "the operator was not deleted, because it may have to remove finalizers from objects that still exist", left)
	}
	crds := len(rest) - len(i.crds)
	if err := i.delete(ctx, o, rest[:crds]); err != nil {
		return err
	}
	if left := i.waitDeleted(ctx, rest[:crds]); len(left) > 0 {
		return i.remains(o, "Remit has not finished; its events give the reason: kubectl get events -n "+i.lineage.Namespace, left)
	}
	kept, err := i.deleteCRDs(ctx, o)
	if err != nil {
		return err
	}
	left := slices.Concat(kept, i.waitDeleted(ctx, objects(i.crds)))
	children, err := i.waitForChildren(ctx, o)
	if err != nil {
		return err
	}
	if left = append(left, children...); len(left) > 0 {
		return i.remains(o, "objects that were created for the operator still exist", left)
	}
	i.noteKeptCRDs(ctx, o)
	return nil
}

// deleteCRDs deletes the CustomResourceDefinitions of which no objects exist and that no other operator needs. It checks this again,
// because everyone who can delay the deletion of the operator decides how long ago the first check was. kept are the others, which it
// removes from those to delete.
func (i *install) deleteCRDs(ctx context.Context, o *Options) (kept []client.Object, err error) {
	i.refusals = nil
	for _, crd := range i.crds {
		if err := i.checkObjects(ctx, crd, false, "; to delete it and all of its objects: kubectl delete crd "+crd.Name); err != nil {
			return nil, err
		}
	}
	if len(i.crds) > 0 {
		if err := i.checkUsers(ctx); err != nil {
			return nil, err
		}
	}
	if len(i.refusals) == 0 {
		return nil, i.delete(ctx, o, objects(i.crds))
	}
	for _, why := range i.refusals {
		message.Fprintln(o.ErrOut, "note: the CustomResourceDefinitions are kept:", why)
	}
	kept, i.crds = objects(i.crds), nil
	return kept, nil
}

// all returns the objects to delete, in this order: custom resources, the Subscription, the ClusterServiceVersions and the
// CustomResourceDefinitions.
func (i *install) all() []client.Object {
	return slices.Concat(objects(i.custom), []client.Object{i.subscription}, objects(i.csvs), objects(i.crds))
}

func objects[T client.Object](in []T) []client.Object {
	out := make([]client.Object, 0, len(in))
	for _, obj := range in {
		out = append(out, obj)
	}
	return out
}

// delete deletes the objects that were read, and not others with the same names.
func (i *install) delete(ctx context.Context, o *Options, objs []client.Object) error {
	for _, obj := range objs {
		uid := obj.GetUID()
		err := i.client.Delete(ctx, obj, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // already deleted, or replaced by another object
		case err != nil:
			return fmt.Errorf("delete %s: %w", i.describe(obj), err)
		default:
			message.Fprintln(o.Out, i.describe(obj), "deleted")
		}
	}
	return nil
}

// waitDeleted waits until the objects no longer exist, and returns those that still exist when ctx is done.
func (i *install) waitDeleted(ctx context.Context, objs []client.Object) (left []client.Object) {
	left = objs
	_ = wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		left = slices.DeleteFunc(slices.Clone(left), func(obj client.Object) bool { return i.isDeleted(ctx, obj) })
		return len(left) == 0, nil
	})
	return left
}

func (i *install) isDeleted(ctx context.Context, obj client.Object) bool {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(i.gvk(obj))
	err := i.client.Get(ctx, client.ObjectKeyFromObject(obj), live)
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err == nil && live.UID != obj.GetUID()
}

// waitForChildren waits until the garbage collector has deleted the objects with the label of the lineage, and returns
// those that remain. Kinds that the user may not list are noted.
func (i *install) waitForChildren(ctx context.Context, o *Options) (left []client.Object, err error) {
	denied, kinds := map[string]bool{}, childKinds()
	err = errors.New("timed out before the first check")
	done := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		found, failure := i.children(ctx, kinds, denied)
		if ctx.Err() == nil {
			left, err = found, failure
		}
		if failure == nil {
			kinds = kindsOf(found) // Remit has finished, so no objects of other kinds are created
		}
		return err == nil && len(left) == 0, nil
	})
	if err != nil && done != nil {
		return nil, fmt.Errorf("determine what remains: %w", err)
	}
	for _, kind := range childKinds() {
		if denied[kind.String()] {
			message.Fprintf(o.ErrOut, "note: objects of kind %s may remain: you are not allowed to list them\n", kind.Kind)
		}
	}
	return left, nil
}

// childKinds are the kinds of the objects that Remit creates for an operator, except CustomResourceDefinitions.
func childKinds() []schema.GroupKind {
	out := []schema.GroupKind{
		{Group: "apps", Kind: "Deployment"},
		{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
		{Group: "apiregistration.k8s.io", Kind: "APIService"},
	}
	for _, k := range bundle.Kinds() {
		if k.Kind != "CustomResourceDefinition" {
			out = append(out, k.GroupKind)
		}
	}
	return out
}

// kindsOf returns the kinds of the objects.
func kindsOf(objs []client.Object) (out []schema.GroupKind) {
	for _, obj := range objs {
		if gk := obj.GetObjectKind().GroupVersionKind().GroupKind(); !slices.Contains(out, gk) {
			out = append(out, gk)
		}
	}
	return out
}

// children lists the objects of the given kinds that have the label of the lineage. It adds kinds to denied that the user may
// list neither in all namespaces nor in the install's namespace.
func (i *install) children(ctx context.Context, kinds []schema.GroupKind, denied map[string]bool) (found []client.Object, err error) {
	for _, gk := range kinds {
		mapping, err := i.client.RESTMapper().RESTMapping(gk)
		if meta.IsNoMatchError(err) || denied[gk.String()] {
			continue // the cluster does not serve the kind
		}
		if err != nil {
			return nil, err
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(mapping.GroupVersionKind)
		marked := i.lineage.Marked()
		err = i.client.List(ctx, list, marked)
		if apierrors.IsForbidden(err) && mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			err = i.client.List(ctx, list, marked, client.InNamespace(i.lineage.Namespace))
		}
		switch {
		case apierrors.IsForbidden(err):
			denied[gk.String()] = true
		case err != nil && !apierrors.IsNotFound(err): // the kind was removed
			return nil, err
		}
		for n := range list.Items {
			obj := &list.Items[n]
			obj.SetGroupVersionKind(mapping.GroupVersionKind)
			found = append(found, obj)
		}
	}
	return found, nil
}

// remains reports objects that still exist.
func (i *install) remains(o *Options, why string, left []client.Object) error {
	for _, obj := range left {
		message.Fprintln(o.Out, i.describe(obj), "remains")
	}
	message.Fprintln(o.ErrOut, "note:", why)
	return cli.Missing()
}

// noteKeptCRDs notes the CustomResourceDefinitions that were created for the operator and are kept.
func (i *install) noteKeptCRDs(ctx context.Context, o *Options) {
	if o.CRDs {
		return
	}
	for _, name := range i.owned() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := i.client.Get(ctx, client.ObjectKey{Name: name}, crd); err == nil && i.lineage.Marks(crd) {
			message.Fprintf(o.ErrOut, "note: CustomResourceDefinition %s is kept; to delete it and all of its objects: kubectl delete crd %s\n", name, name)
		}
	}
}

func (i *install) gvk(obj client.Object) schema.GroupVersionKind {
	gvk, err := apiutil.GVKForObject(obj, i.client.Scheme())
	if err != nil {
		return obj.GetObjectKind().GroupVersionKind()
	}
	return gvk
}

// describe returns the resource and name of an object as kubectl prints them, with its namespace if it differs from that of
// the install.
func (i *install) describe(obj client.Object) string {
	gvk := i.gvk(obj)
	out := strings.ToLower(gvk.Kind)
	if gvk.Group != "" {
		out += "." + gvk.Group
	}
	out += "/" + obj.GetName()
	if ns := obj.GetNamespace(); ns != "" && ns != i.lineage.Namespace {
		out += " in namespace " + ns
	}
	return out
}
