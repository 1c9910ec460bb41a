package execute

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/step"
)

// gathering calls Gather for 100 ConfigMaps, named by their numbers, whose reads take a second and return the results of
// answer. It returns the number of reads. It must be called in a synctest bubble.
func gathering(t *testing.T, answer func(name string) error) (states []State, reads int64, err error) {
	var steps []step.Step
	for i := range 100 {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		obj.SetNamespace("ns")
		obj.SetName(fmt.Sprint(i))
		steps = append(steps, step.Step{Object: obj})
	}
	var count atomic.Int64
	account := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			count.Add(1)
			time.Sleep(time.Second)
			return answer(key.Name)
		},
	})
	states, err = (&Executor{Account: account}).Gather(t.Context(), steps)
	return states, count.Load(), err
}

func TestGatherStopsAfterAFailedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, reads, err := gathering(t, func(name string) error {
			if name == "6" || name == "7" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, name, nil)
			}
			return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
		})
		require.ErrorContains(t, err, `configmaps "6" is forbidden`, "the first failed step is reported, so that messages do not change")
		require.LessOrEqual(t, reads, int64(6+2*readsAtOnce))
	})
}

func TestGatherContinuesAfterUnservedKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		states, reads, err := gathering(t, func(string) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, SearchedVersions: []string{"v1"}}
		})
		require.NoError(t, err)
		require.Len(t, states, 100)
		require.EqualValues(t, 100, reads)
		for _, s := range states {
			require.ErrorAs(t, s.Problem, new(*UnservedError))
		}
	})
}
