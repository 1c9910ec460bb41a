package oracle

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// finalizer keeps a namespace until the oracle has seen that it is empty.
const finalizer = "remit.dev/escape"

// Leave marks a namespace as terminating and deletes what the last snapshot contains of it. The namespace controller would send
// two requests for each of forty resources, most of which have no objects there. The first snapshot in which the namespace is
// empty removes it.
func (o *Oracle) Leave(ctx context.Context, namespace string) error {
	if err := o.terminate(ctx, namespace); err != nil {
		return client.IgnoreNotFound(err)
	}
	o.leaving[namespace] = true
	o.empty(ctx, namespace)
	return nil
}

// terminate deletes a namespace such that the namespace controller ignores it, because its spec has no finalizers, and the API
// server keeps it as terminating, because its metadata has one.
func (o *Oracle) terminate(ctx context.Context, name string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		namespace := &corev1.Namespace{}
		if err := o.cluster.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
			return err
		}
		controllerutil.AddFinalizer(namespace, finalizer)
		namespace.Spec.Finalizers = nil
		if err := o.cluster.Client.SubResource("finalize").Update(ctx, namespace); err != nil {
			return err
		}
		return o.cluster.Client.Delete(ctx, namespace)
	})
}

// empty deletes the objects of all resources that have objects in the namespace. It ignores errors, because webhooks and
// finalizers may prevent deletions for some time: sweep repeats them.
func (o *Oracle) empty(ctx context.Context, namespace string) {
	var deletions errgroup.Group
	deletions.SetLimit(lists)
	for _, gvr := range o.last.resourcesIn(namespace) {
		deletions.Go(func() error {
			return o.client.RESTClient().Delete().AbsPath(pathOf(gvr, "namespaces", namespace)...).SetHeader("Content-Type", "application/json").
				Body([]byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}`)).Do(ctx).Error()
		})
	}
	_ = deletions.Wait()
}

// Sweep takes a snapshot, and removes the namespaces of earlier scenes that are empty.
func (o *Oracle) Sweep(ctx context.Context) error {
	var err error
	if o.last, err = take(ctx, o.client); err != nil {
		return err
	}
	return o.sweep(ctx)
}

// sweep removes the namespaces of earlier scenes that are empty in the last snapshot, and deletes what the others contain.
func (o *Oracle) sweep(ctx context.Context) error {
	for _, name := range slices.Collect(maps.Keys(o.leaving)) {
		if !o.last.isEmpty(name) {
			o.empty(ctx, name)
			continue
		}
		namespace := &corev1.Namespace{}
		namespace.Name = name
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := o.cluster.Client.Patch(ctx, namespace, patch); client.IgnoreNotFound(err) != nil {
			return err
		}
		delete(o.leaving, name)
	}
	return nil
}

// resourcesIn returns the resources that have objects in a namespace.
func (s *Snapshot) resourcesIn(namespace string) []schema.GroupVersionResource {
	found := map[schema.GroupVersionResource]bool{}
	for key := range s.objects {
		if key.Namespace == namespace {
			found[s.resources[key.GroupResource]] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// isEmpty reports whether a namespace contains nothing except events.
func (s *Snapshot) isEmpty(namespace string) bool {
	for key := range s.objects {
		if key.Namespace == namespace && key.Resource != "events" {
			return false
		}
	}
	return true
}
