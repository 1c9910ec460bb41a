package kill

import (
	"fmt"
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

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// sampleSteps is the number of objects that the sample's plan creates, and sampleWrites the number that the program
	// creates. They differ because the operator's Deployment is not a step.
	sampleSteps  = 7
	sampleWrites = sampleSteps + 1
	// maxWrites is the maximum number of kills in a sweep.
	maxWrites = 40
)

// world is the program under test and its gate to the control plane.
type world struct {
	gate    *gate
	program *program
	// name distinguishes the catalogs of the two sweeps.
	name string
}

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	w := &world{gate: newGate(t, cluster.Config()), name: name}
	var args []string
	for image, dir := range catalogs {
		args = append(args, "--catalog-directory="+image+"="+dir)
	}
	w.program = newProgram(t, cluster, w.gate, args...)
	w.program.start()
	return w
}

// asAccount reports whether a request was sent as an account, with a token other than the program's.
func (w *world) asAccount(r *http.Request) bool {
	return r.Header.Get("Authorization") != "Bearer "+w.program.token
}

func anybody(*http.Request) bool { return true }

func TestAPlanSurvivesAKillAfterEachOfItsSteps(t *testing.T) {
	w := newWorld(t, sweeps[0])
	n := w.sweep(t, w.asAccount)
	require.Equal(t, sampleWrites, n, "writes as the account")
}

func TestAPlanSurvivesAKillAfterAnyWriteOfTheProgram(t *testing.T) {
	w := newWorld(t, sweeps[1])
	n := w.sweep(t, anybody)
	require.Greater(t, n, sampleWrites)
	t.Logf("killed after each of %d writes", n)
}

// sweep installs the sample repeatedly, with the kill one write later each time, until an install completes before the
// kill. It returns the number of kills.
func (w *world) sweep(t *testing.T, counts func(*http.Request) bool) int {
	t.Helper()
	for n := 1; n <= maxWrites; n++ {
		killed := false
		passed := t.Run(fmt.Sprintf("after write %d", n), func(t *testing.T) { killed = w.install(t, n, counts) })
		if !killed || !passed {
			return n - 1
		}
	}
	t.Fatalf("more than %d writes", maxWrites)
	return 0
}

// install installs the sample into its own namespace, with a kill after the nth write, and asserts that nothing was
// created twice. It reports whether the program was killed.
func (w *world) install(t *testing.T, n int, counts func(*http.Request) bool) bool {
	tn := cluster.Tenant(t)
	b, err := env.ReadBundle(os.DirFS(catalogs[image(w.name, n)]))
	require.NoError(t, err)
	tn.GrantAll(tn.Needs(b, bundle.Package, tn.Namespace))
	shot := w.gate.arm(n, counts, w.program.kill)
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image(w.name, n))
	tn.Subscribe("catalog", bundle.Package, bundle.Channel)

	killed := w.firedOrComplete(tn, shot)
	before := map[string]types.UID{}
	if killed {
		before = w.objects(tn)
		w.program.start()
	}
	ip := tn.Complete()
	require.Len(t, ip.Status.Plan, sampleSteps)
	after := w.objects(tn)
	require.Len(t, after, sampleSteps)
	for id, uid := range before {
		require.Equal(t, uid, after[id], id)
	}
	madeOnce(t, tn)
	return killed
}

func (w *world) firedOrComplete(tn *env.Tenant, s *shot) bool {
	tn.T.Helper()
	fired := func() bool {
		select {
		case <-s.fired:
			return true
		default:
			return false
		}
	}
	tn.Eventually(func(c *assert.CollectT) {
		if !fired() {
			assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseComplete, tn.Plan(c).Status.Phase)
		}
	})
	w.gate.disarm()
	return fired()
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

// madeOnce asserts that, according to the audit log, each object was created by exactly one request, and that there is
// one InstallPlan.
func madeOnce(t *testing.T, tn *env.Tenant) {
	t.Helper()
	made := map[string]int{}
	for _, e := range tn.Writes() {
		if e.Created() {
			made[e.Object.Resource+" "+e.Object.Name]++
		}
	}
	require.Len(t, made, sampleWrites)
	for id, times := range made {
		require.Equal(t, 1, times, id)
	}
}
