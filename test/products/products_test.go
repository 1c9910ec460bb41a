package products

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step/build"
)

const (
	// objects is the size of what a tenant stores, in bytes.
	objects = 1_400_000
	// small is the size of each of the two lists when a pair is tried for the first time.
	small = 1_500
	// multiplies is the number of bytes that a pair allocates in addition to what each of its lists does alone, if there are
	// objects for each combination of their entries.
	multiplies = 100 << 10
	// maxAllocated is the maximum number of bytes that are allocated for one pair, in all steps together and including what is
	// freed on the way. Decoding a manifest of the size of objects, several times, takes most of it.
	maxAllocated = 700 << 20
	// maxSteps is the maximum number of values that are rendered.
	maxSteps = 3_000_000
	// most is the number of pairs that are tried with large lists, those first that multiply most.
	most = 40
)

// base is a ClusterServiceVersion with an entry in each list that others are multiplied by.
const base = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: op.v1, annotations: {a: b}}
spec:
  installModes: [{type: OwnNamespace, supported: true}, {type: MultiNamespace, supported: true}, {type: AllNamespaces, supported: true}]
  install:
    strategy: deployment
    spec:
      deployments: [{name: op, spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: op}]}}}}]
      permissions: [{serviceAccountName: op, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}]
  webhookdefinitions:
  - {type: ValidatingAdmissionWebhook, generateName: a.b.example.com, deploymentName: op, admissionReviewVersions: [v1], sideEffects: None,
     rules: [{apiGroups: [g], apiVersions: [v1], resources: [r], operations: [CREATE]}]}
`

// tenant is what a tenant writes.
type tenant struct {
	CSV    operatorsv1alpha1.ClusterServiceVersion `json:"csv"`
	Config operatorsv1alpha1.SubscriptionConfig    `json:"config"`
	// Targets are the namespaces of the OperatorGroup.
	Targets []string `json:"targets"`
}

// written returns what a tenant writes who fills the fields with entries of the given size.
func written(t *testing.T, size int, fields ...Field) *tenant {
	t.Helper()
	out := &tenant{Targets: []string{"ops"}}
	require.NoError(t, yaml.Unmarshal([]byte(base), &out.CSV))
	for _, f := range fields {
		f.Fill(out, size)
	}
	return out
}

// cost is what a pair costs.
type cost struct {
	allocated uint64
	steps     int64
	refused   string
}

func (c cost) String() string {
	return fmt.Sprintf("%4d MiB %8d steps  %.120s", c.allocated>>20, c.steps, c.refused)
}

// expand does everything that Remit does with the objects of a tenant.
func expand(t *testing.T, in *tenant) cost {
	t.Helper()
	csv, err := json.Marshal(in.CSV)
	require.NoError(t, err)
	config, err := json.Marshal(map[string]any{"deploymentConfig": in.Config})
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := cost{}
	refuse := func(err error) bool {
		if err != nil && out.refused == "" {
			out.refused = err.Error()
		}
		return err != nil
	}
	b, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: [][]byte{csv}})
	if !refuse(err) {
		install(b, &in.Config, in.Targets, &out, refuse)
		extend(b, config, refuse)
	}
	runtime.ReadMemStats(&after)
	out.allocated = after.TotalAlloc - before.TotalAlloc
	return out
}

// install does what the controllers of OLM v0's API do.
func install(b *bundle.Bundle, config *operatorsv1alpha1.SubscriptionConfig, targets []string, out *cost, refuse func(error) bool) {
	steps, err := build.NewStepResourceFromBundle(b, build.Scope{Namespace: "ops", Package: "op", Group: "g", Targets: targets}, build.Unchecked{})
	if !refuse(err) {
		for i := range steps.Steps {
			if steps.Steps[i].Install != nil {
				steps.Steps[i].Install.Config = config
			}
		}
		_, err = preflight.LeftOutText(steps.Steps)
		refuse(err)
	}
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "ops"}, CSV: b.CSV.Name}
	drawn := budget.New("the Deployments", deployment.MaxBytes)
	_, err = deployment.Desired(deployment.Input{CSV: b.CSV, Owner: owner, Group: deployment.GroupAnnotations("g", "ops", targets), Config: config, Budget: drawn})
	out.steps = drawn.Drawn().Values
	refuse(err)
	webhooks, apis := hooks.Validate(b.CSV, config)
	if refuse(webhooks) || refuse(apis) || refuse(build.CheckScopes(b.CSV, "ops", targets)) {
		return
	}
	plan, err := hooks.New(hooks.Input{CSV: b.CSV, Owner: owner, Group: webhook.Group{Bounded: true, Targets: targets}, Config: config})
	if !refuse(err) {
		_, err = plan.Needs()
		refuse(err)
	}
}

// extend does what the controller of ClusterExtensions does.
func extend(b *bundle.Bundle, config []byte, refuse func(error) bool) {
	parsed, err := render.ParseConfig(config)
	if !refuse(err) {
		_, err = render.Render(render.Input{Bundle: b, Config: parsed, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "ops", Extension: "op"}}})
		refuse(err)
	}
}

// pair is a pair of fields, and what it allocates in addition to its parts.
type pair struct {
	a, b    Field
	surplus int64
}

// multiplying tries all pairs with short lists, and returns those that allocate more than their parts, most first. allocated
// returns the number of bytes that the given fields allocate together.
func multiplying(allocated func(fields ...Field) int64, fields []Field) []pair {
	allocated() // fills caches
	nothing := allocated()
	alone := make([]int64, len(fields))
	for i, f := range fields {
		alone[i] = allocated(f) - nothing
	}
	var out []pair
	for i, a := range fields {
		for j, b := range fields[i+1:] {
			if surplus := allocated(a, b) - alone[i] - alone[i+1+j] - nothing; surplus > multiplies {
				out = append(out, pair{a, b, surplus})
			}
		}
	}
	slices.SortFunc(out, func(a, b pair) int { return cmp.Compare(b.surplus, a.surplus) })
	return out
}

// tryLarge tries pairs at sizes that fit into an object of the given size: the longest lists, and lists below the limits of each.
func tryLarge(t *testing.T, pairs []pair, most int, try func(size int, fields ...Field) cost, maxBytes uint64, maxSteps int64) {
	t.Helper()
	for _, p := range pairs {
		for _, size := range []int{most / 2, most / 16, most / 40} {
			got := try(size, p.a, p.b)
			t.Logf("%s  %s × %s (%d KiB; %d KiB)", got, p.a.Path, p.b.Path, size>>10, p.surplus>>10)
			require.Less(t, got.allocated, maxBytes, "%s × %s: %s", p.a.Path, p.b.Path, got)
			require.Less(t, got.steps, maxSteps, "%s × %s: %s", p.a.Path, p.b.Path, got)
		}
	}
}

func TestNoPairOfListsMultiplies(t *testing.T) {
	fields := Fields(reflect.TypeFor[tenant]())
	require.Greater(t, len(fields), 100)
	with := func(size int, fields ...Field) cost { return expand(t, written(t, size, fields...)) }
	pairs := multiplying(func(fields ...Field) int64 { return int64(with(small, fields...).allocated) }, fields)
	t.Logf("%d of %d pairs multiply", len(pairs), len(fields)*(len(fields)-1)/2)
	require.Greater(t, len(pairs), 5, "the walk finds what multiplies")
	tryLarge(t, pairs[:min(len(pairs), most)], objects, with, maxAllocated, maxSteps)
}
