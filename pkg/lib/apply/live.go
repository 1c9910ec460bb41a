package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

// Limits for the estimated memory of a live object, in bytes. An object of 1.5 MiB that someone else wrote can take more than a hundred
// MiB, for example because of its managed fields. maxLiveCost applies if the caller adds up what it takes, and maxUncounted otherwise,
// because every worker of a program can hold such an object at the same time. The largest object of the corpus takes 10 MiB.
const maxLiveCost, maxUncounted = 64 << 20, 24 << 20

// TooLargeError reports that an object exists, but needs more memory than its reader allows. Retrying does not help until the object
// becomes smaller or is deleted.
type TooLargeError struct {
	// Object is "<Kind> <namespace>/<name>".
	Object string
	// Cost is the estimated memory that the object needs, and Limit the memory that is allowed, in bytes.
	Cost, Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s exists, but it is too large: decoding the object would need about %s of memory, but at most %s are allowed; it was not changed: "+
		"delete it if nothing else needs it, or remove what makes it large, which can be its managed fields", e.Object, size(e.Cost), size(e.Limit))
}

// size formats a number of bytes for a message.
func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Live reads the object with the kind and name of desired. It returns nil if the object does not exist.
func Live(ctx context.Context, c client.Reader, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return LiveWithin(ctx, c, desired, nil)
}

// LiveWithin is like Live, but calls take with the estimated memory in bytes before it decodes the object. An error of take ends it.
// Without take, it refuses smaller objects.
func LiveWithin(ctx context.Context, c client.Reader, desired *unstructured.Unstructured, take func(cost int64) error) (*unstructured.Unstructured, error) {
	return read(ctx, c, desired, &limited{take: take})
}

// LiveContent is like Live, but omits the managed fields. It is for callers that must not depend on how large other users make these.
func LiveContent(ctx context.Context, c client.Reader, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return read(ctx, c, desired, &limited{omitsManagers: true})
}

func read(ctx context.Context, c client.Reader, desired *unstructured.Unstructured, live *limited) (*unstructured.Unstructured, error) {
	live.describe = Describe(desired)
	live.SetGroupVersionKind(desired.GroupVersionKind())
	found, err := Read(ctx, c, client.ObjectKeyFromObject(desired), live)
	if tooLarge, is := errors.AsType[*TooLargeError](err); is {
		return nil, tooLarge // names the object
	}
	if err != nil || !found {
		return nil, err
	}
	return &live.Unstructured, nil
}

// limited is an object that is decoded only if it does not take too much memory.
type limited struct {
	unstructured.Unstructured

	take func(cost int64) error
	// omitsManagers is true if the managed fields are not decoded.
	omitsManagers bool
	describe      string
}

// UnmarshalJSON implements json.Unmarshaler, which clients use for kinds that implement runtime.Unstructured.
func (l *limited) UnmarshalJSON(text []byte) error {
	if l.omitsManagers {
		var err error
		if text, err = withoutManagers(text); err != nil {
			return err
		}
	}
	cost := budget.JSONCost(text)
	limit := int64(maxLiveCost)
	if l.take == nil {
		limit = maxUncounted
	}
	if cost > limit {
		return &TooLargeError{Object: l.describe, Cost: cost, Limit: limit}
	}
	if l.take != nil {
		if err := l.take(cost); err != nil {
			return err
		}
	}
	return l.Unstructured.UnmarshalJSON(text)
}

// withoutManagers removes the managed fields from the JSON of an object without decoding them.
func withoutManagers(text []byte) ([]byte, error) {
	var obj, metadata map[string]json.RawMessage
	if err := json.Unmarshal(text, &obj); err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	if obj["metadata"] == nil {
		return text, nil
	}
	if err := json.Unmarshal(obj["metadata"], &metadata); err != nil {
		return nil, fmt.Errorf("decode the metadata of the object: %w", err)
	}
	delete(metadata, "managedFields")
	var err error
	if obj["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, fmt.Errorf("encode the metadata of the object: %w", err)
	}
	return json.Marshal(obj)
}
