package kill

import (
	"net/http"
	"os"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// sampleSteps is the number of objects that the sample's plan creates, and sampleWrites the number that the program
	// creates. They differ because the operator's Deployment is not a step.
	sampleSteps  = 7
	sampleWrites = sampleSteps + 1
)

// newCatalogWorld starts the catalog program with the catalogs of all sweeps.
func newCatalogWorld(t *testing.T, name string) *world {
	t.Helper()
	var args []string
	for image, dir := range catalogs {
		args = append(args, "--catalog-directory="+image+"="+dir)
	}
	return newWorld(t, name, names.ServiceAccountCatalog, args...)
}

func TestAPlanSurvivesAKillAfterEachOfItsSteps(t *testing.T) {
	w := newCatalogWorld(t, sweeps[0])
	n := sweep(t, func(t *testing.T, n int) bool { return w.install(t, n, w.asIdentity) })
	require.Equal(t, sampleWrites, n, "writes as the account")
}

func TestAPlanSurvivesAKillAfterAnyWriteOfTheProgram(t *testing.T) {
	w := newCatalogWorld(t, sweeps[1])
	n := sweep(t, func(t *testing.T, n int) bool { return w.install(t, n, anyRequest) })
	require.Greater(t, n, sampleWrites)
	t.Logf("killed after each of %d writes", n)
}

// install installs the sample into its own namespace, with a kill after the nth write, and asserts that nothing was
// created twice. It reports whether the program was killed.
func (w *world) install(t *testing.T, n int, counts func(*http.Request) bool) bool {
	tn := cluster.Tenant(t)
	b, err := env.ReadBundle(os.DirFS(catalogs[image(w.name, n)]))
	require.NoError(t, err)
	tn.GrantAll(tn.Needs(b, bundle.Package, tn.Namespace))
	shot := w.gate.arm(n, counts, w.program.Kill)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image(w.name, n))
	tn.Subscribe("catalog", bundle.Package, bundle.Channel)

	killed := w.firedOr(t, shot, func(c *assert.CollectT) {
		assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseComplete, tn.Plan(c).Status.Phase)
	})
	before := map[string]types.UID{}
	if killed {
		before = w.objects(tn)
		w.start(t)
	}
	ip := tn.Complete()
	require.Len(t, ip.Status.Plan, sampleSteps)
	after := w.objects(tn)
	require.Len(t, after, sampleSteps)
	for id, uid := range before {
		require.Equal(t, uid, after[id], id)
	}
	require.Len(t, madeOnce(t, tn.Writes()), sampleWrites)
	return killed
}

// objects returns the UIDs of the plan's objects that exist.
func (w *world) objects(tn *env.Tenant) map[string]types.UID {
	tn.T.Helper()
	plans := &operatorsv1alpha1.InstallPlanList{}
	require.NoError(tn.T, cluster.Client.List(tn.T.Context(), plans, client.InNamespace(tn.Namespace)))
	out := map[string]types.UID{}
	for _, ip := range plans.Items {
		for _, step := range ip.Status.Plan {
			gvk := schema.GroupVersionKind{Group: step.Resource.Group, Version: step.Resource.Version, Kind: step.Resource.Kind}
			obj := &unstructured.Unstructured{}
			obj.SetGroupVersionKind(gvk)
			key := client.ObjectKey{Namespace: tn.Namespace, Name: step.Resource.Name}
			if gvk.Kind == "CustomResourceDefinition" {
				key.Namespace = ""
			}
			err := cluster.Client.Get(tn.T.Context(), key, obj)
			if apierrors.IsNotFound(err) {
				continue
			}
			require.NoError(tn.T, err)
			out[gvk.Kind+" "+step.Resource.Name] = obj.GetUID()
		}
	}
	return out
}
