package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

// maxLiveCost is the maximum estimated memory for decoding a live object. An object of 1.5 MiB that someone else wrote can take more
// than a hundred MiB, for example because of its managed fields.
const maxLiveCost = 64 << 20

// Live reads the object with the kind and name of desired. It returns nil if the object does not exist.
func Live(ctx context.Context, c client.Reader, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return LiveWithin(ctx, c, desired, nil)
}

// LiveWithin is like Live, but calls take with the estimated memory in bytes before it decodes the object. An error of take ends it. A nil
// take limits nothing.
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
	if cost > maxLiveCost {
		return fmt.Errorf("decoding the object would need about %d MiB of memory, but at most %d MiB are allowed", cost>>20, maxLiveCost>>20)
	}
	if l.take != nil {
		if err := l.take(cost); err != nil {
			return err
		}
	}
	return l.Unstructured.UnmarshalJSON(text)
}
