package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

// Limits for the estimated memory of a live object, in bytes. An object of 1.5 MiB that someone else wrote can take more than a hundred
// MiB, for example because of its managed fields. maxLiveCost applies if the caller adds up what it takes, and maxUncounted otherwise,
// because every worker of a program can hold such an object at the same time. The largest object of the corpus takes 10 MiB.
const maxLiveCost, maxUncounted = 64 << 20, 24 << 20

// Live reads the object with the kind and name of desired. It returns nil if the object does not exist.
func Live(ctx context.Context, c client.Reader, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return LiveWithin(ctx, c, desired, nil)
}

// LiveWithin is like Live, but calls take with the estimated memory in bytes before it decodes the object. An error of take ends it.
// Without take, it refuses smaller objects.
func LiveWithin(ctx context.Context, c client.Reader, desired *unstructured.Unstructured, take func(cost int64) error) (*unstructured.Unstructured, error) {
	live := &limited{take: take}
	live.SetGroupVersionKind(desired.GroupVersionKind())
	if found, err := Read(ctx, c, client.ObjectKeyFromObject(desired), live); err != nil || !found {
		return nil, err
	}
	return &live.Unstructured, nil
}

// limited is an object that is decoded only if it does not take too much memory.
type limited struct {
	unstructured.Unstructured

	take func(cost int64) error
}

// UnmarshalJSON implements json.Unmarshaler, which clients use for kinds that implement runtime.Unstructured.
func (l *limited) UnmarshalJSON(text []byte) error {
	cost := budget.JSONCost(text)
	limit := int64(maxLiveCost)
	if l.take == nil {
		limit = maxUncounted
	}
	if cost > limit {
		return fmt.Errorf("decoding the object would need about %d MiB of memory, but at most %d MiB are allowed", cost>>20, limit>>20)
	}
	if l.take != nil {
		if err := l.take(cost); err != nil {
			return err
		}
	}
	return l.Unstructured.UnmarshalJSON(text)
}
