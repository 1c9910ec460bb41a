package apply

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Share adds the owner references of desired to a live object that another install created, so that the object exists as
// long as one of the owners does. It writes nothing else. The caller decides whether the object may be shared.
func Share(ctx context.Context, c client.Client, live, desired *unstructured.Unstructured) (Result, *unstructured.Unstructured, error) {
	if err := CheckKept(live, desired); err != nil {
		return "", nil, err
	}
	if HasOwners(live, desired) {
		return Unchanged, live, nil
	}
	want := Reference(live.GroupVersionKind(), live.GetNamespace(), live.GetName())
	want.SetOwnerReferences(desired.GetOwnerReferences())
	want.SetUID(live.GetUID())
	want.SetResourceVersion(live.GetResourceVersion())
	by := client.FieldOwner(Manager(desired.GetLabels()))
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), by); err != nil {
		return "", nil, fmt.Errorf("add an owner to %s: %w", Describe(desired), err)
	}
	return Updated, want, nil
}

// HasOwners reports whether a live object has all owners of desired, by their UIDs. It may have others.
func HasOwners(live, desired metav1.Object) bool {
	for _, want := range desired.GetOwnerReferences() {
		if !slices.ContainsFunc(live.GetOwnerReferences(), func(have metav1.OwnerReference) bool { return have.UID == want.UID }) {
			return false
		}
	}
	return true
}
