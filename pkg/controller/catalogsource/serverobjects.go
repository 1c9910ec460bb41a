package catalogsource

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// takenError reports a collision: an object with the wanted name belongs to another owner. Deleting the object triggers
// another reconcile.
type takenError struct{ object string }

func (e *takenError) Error() string {
	return e.object + " already exists and does not belong to this CatalogSource; it was not changed. Delete it, or rename the CatalogSource"
}

// ensureOthers creates or updates the ServiceAccount, which must exist before the Pod, and the Service.
func (s *servers) ensureOthers(ctx context.Context, want objects) error {
	account := &corev1.ServiceAccount{}
	live, err := s.find(ctx, s.own, want.account, account, want.owner)
	if err != nil {
		return err
	}
	if live && account.Labels[names.LabelPullSecretsHash] != want.account.Labels[names.LabelPullSecretsHash] {
		err = s.change(ctx, account, want.account, func() {
			account.ImagePullSecrets, account.AutomountServiceAccountToken = want.account.ImagePullSecrets, want.account.AutomountServiceAccountToken
		})
	}
	if err != nil {
		return err
	}
	service := &corev1.Service{}
	live, err = s.find(ctx, s.cached, want.service, service, want.owner)
	if err != nil {
		return err
	}
	if live && service.Labels[names.LabelServiceSpecHash] != want.service.Labels[names.LabelServiceSpecHash] {
		return s.change(ctx, service, want.service, func() {
			service.Spec.Selector, service.Spec.Ports, service.Spec.Type = want.service.Spec.Selector, want.service.Spec.Ports, want.service.Spec.Type
		})
	}
	return nil
}

// find reads an existing object into found, or creates the wanted object. live reports whether the object existed. If
// it belongs to another owner, find returns a *takenError, so that such an object is never changed, even if the cache
// is outdated.
func (s *servers) find(ctx context.Context, from client.Reader, want, found client.Object, owner types.UID) (live bool, err error) {
	key := client.ObjectKeyFromObject(want)
	err = from.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		err = s.client.Create(ctx, want)
		if err == nil {
			return false, nil
		}
		if apierrors.IsAlreadyExists(err) {
			err = s.live.Get(ctx, key, found)
		}
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("%s: %w", apply.Describe(want), err)
	case !server.OwnedBy(found, owner):
		return false, &takenError{apply.Describe(want)}
	case found.GetDeletionTimestamp() != nil:
		return false, fmt.Errorf("%s is being deleted", apply.Describe(want))
	}
	return true, nil
}

// change patches an owned object whose desired state has changed.
func (s *servers) change(ctx context.Context, live, want client.Object, edit func()) error {
	before := live.DeepCopyObject().(client.Object)
	live.SetLabels(labels.Merge(live.GetLabels(), want.GetLabels()))
	edit()
	if err := s.client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch %s: %w", apply.Describe(live), err)
	}
	return nil
}

// podTarget returns the address of a Pod's registry, or the problem with the address. The address is that of the Pod itself,
// because a Service can select any Pod with the same labels. A node reports the address, so it is refused if it is local to this
// machine.
func podTarget(pod *corev1.Pod) (target, trouble string) {
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || image.IsLocal(ip) {
		return "", fmt.Sprintf("Pod %s has the address %q, which is not a valid Pod address", pod.Name, pod.Status.PodIP)
	}
	return net.JoinHostPort(ip.String(), strconv.Itoa(server.Port)), ""
}
