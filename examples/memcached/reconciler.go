package main

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/examples/memcached/api"
	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

// image is the image of memcached.
const image = "memcached:1.6-alpine"

// reconciler maintains a Deployment for each Memcached.
type reconciler struct {
	client.Client
	cache *scopedcache.Cache
}

func (r *reconciler) setUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&api.Memcached{}).
		Owns(&appsv1.Deployment{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ownerOfPod)).
		// A Memcached is also reconciled when a permission that its claims need is granted or revoked.
		WatchesRawSource(r.cache.Changes(nil)).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler. No finalizer is needed: when a Memcached is deleted, the cache stops the
// watches for it, and the garbage collector deletes the Deployment.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	m := &api.Memcached{}
	if err := r.Get(ctx, req.NamespacedName, m); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	owner, err := scopedcache.OwnerOf(m, r.Scheme())
	if err != nil {
		return reconcile.Result{}, err
	}
	// With this context, reads are claims: they start a watch for the Deployment and one for the namespace's Pods.
	status, err := r.ensure(scopedcache.WithOwner(ctx, owner), m)
	if apierrors.IsForbidden(err) {
		// A write may be refused before the watches detect that a permission was revoked.
		r.cache.ReportForbidden(err, &appsv1.Deployment{}, m.Namespace)
		status, err = failed(m, err), nil // a change to the claim triggers another reconcile
	}
	if err != nil || equality.Semantic.DeepEqual(status, m.Status) {
		return reconcile.Result{}, err
	}
	log.FromContext(ctx).Info("Reconciled", "status", status.State.Status, "message", status.State.Message)
	updated := m.DeepCopyObject().(*api.Memcached)
	updated.Status = status
	return reconcile.Result{}, r.Status().Patch(ctx, updated, client.MergeFrom(m))
}

func failed(m *api.Memcached, err error) api.MemcachedStatus {
	return api.MemcachedStatus{Nodes: m.Status.Nodes, State: api.State{Status: "Failed", Message: "Not permitted to manage the Deployment: " + err.Error()}}
}

// ensure creates or resizes the Deployment, and returns the status.
func (r *reconciler) ensure(ctx context.Context, m *api.Memcached) (api.MemcachedStatus, error) {
	d := &appsv1.Deployment{}
	err := r.Get(ctx, client.ObjectKeyFromObject(m), d)
	if apierrors.IsNotFound(err) {
		d = deployment(m)
		if err = controllerutil.SetControllerReference(m, d, r.Scheme()); err == nil {
			err = client.IgnoreAlreadyExists(r.Create(ctx, d))
		}
	}
	if err != nil {
		return api.MemcachedStatus{}, err
	}
	if ptr.Deref(d.Spec.Replicas, 1) != m.Spec.Size {
		d.Spec.Replicas = &m.Spec.Size
		if err := r.Update(ctx, d); err != nil {
			return api.MemcachedStatus{}, err
		}
	}
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(m.Namespace), client.MatchingLabels(labels(m.Name))); err != nil {
		return api.MemcachedStatus{}, err
	}
	status := api.MemcachedStatus{State: api.State{Status: "Succeeded", Message: fmt.Sprintf("Deployment %s successfully created", m.Name)}}
	for _, p := range pods.Items {
		status.Nodes = append(status.Nodes, p.Name)
	}
	slices.Sort(status.Nodes)
	return status, nil
}

const (
	labelApp  = "app"
	labelName = "memcached"
)

func labels(name string) map[string]string {
	return map[string]string{labelApp: "memcached", labelName: name}
}

func deployment(m *api.Memcached) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &m.Spec.Size,
			Selector: &metav1.LabelSelector{MatchLabels: labels(m.Name)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(m.Name)},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "memcached", Image: image, Ports: []corev1.ContainerPort{{ContainerPort: 11211, Name: "memcached"}},
				}}},
			},
		},
	}
}

func ownerOfPod(_ context.Context, obj client.Object) []reconcile.Request {
	if obj.GetLabels()[labelApp] != "memcached" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[labelName]}}}
}
