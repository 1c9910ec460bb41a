package installplan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/pkg/step/existing"
	"github.com/remit-olm/remit/test/env/proofs"
)

// stored is a client whose lists contain one invalid object for each entry of namespaces. Each list request advances
// the clock by the duration in takes.
type stored struct {
	client.Client
	clock *testclock.FakePassiveClock
	takes time.Duration
	// namespaces lists the namespaces that contain an invalid object, keyed by kind.
	namespaces map[string][]string
	reads      map[string]int
	fails      error
}

// RESTMapper maps the kinds of definition, whose plurals are the kinds.
func (*stored) RESTMapper() meta.RESTMapper {
	out := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"A", "B"} {
		version := schema.GroupVersion{Group: "x.io", Version: "v1"}
		out.AddSpecific(version.WithKind(kind), version.WithResource(kind), version.WithResource(kind), meta.RESTScopeNamespace)
	}
	return out
}

func (s *stored) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if s.fails != nil {
		return s.fails
	}
	into := &unstructured.UnstructuredList{}
	into.SetKind(list.GetObjectKind().GroupVersionKind().Kind)
	kind := strings.TrimSuffix(into.GetKind(), "List")
	s.clock.SetTime(s.clock.Now().Add(s.takes))
	s.reads[kind]++
	for _, namespace := range s.namespaces[kind] {
		obj := unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		obj.SetNamespace(namespace)
		obj.SetName("broken")
		into.Items = append(into.Items, obj)
	}
	text, err := into.MarshalJSON()
	if err != nil {
		return err
	}
	return list.(json.Unmarshaler).UnmarshalJSON(text)
}

// retried is a plan whose check of existing objects is retried. It changes the CustomResourceDefinitions of kinds A and
// B.
type retried struct {
	t      *testing.T
	stored *stored
	roles  toolscache.Indexer
	run    *run
}

func retries(t *testing.T) *retried {
	t.Helper()
	clock := testclock.NewFakePassiveClock(time.Unix(1_000_000, 0))
	index := func() toolscache.Indexer {
		return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	p := &retried{t: t, stored: &stored{clock: clock, namespaces: map[string][]string{}, reads: map[string]int{}}, roles: index()}
	bindings := index()
	for _, namespace := range []string{"ns", "t"} {
		require.NoError(t, bindings.Add(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reads"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reads"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "acct"}},
		}))
	}
	p.run = &run{
		reconciler: &Reconciler{Options: Options{Clock: clock, RBAC: rbac.Listers{
			Roles: rbacv1listers.NewRoleLister(p.roles), RoleBindings: rbacv1listers.NewRoleBindingLister(bindings),
			ClusterRoles: rbacv1listers.NewClusterRoleLister(index()), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(index()),
		}}, memory: &memory{}},
		plan:     &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}},
		account:  scoped.Account{Namespace: "ns", Name: "acct", UID: "1"},
		targets:  []string{"ns"},
		executor: &execute.Executor{CRDs: p.stored},
	}
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Namespace: "ns", Package: "p"}, CSV: "p.v1", Proofs: proofs.Keys()}
	for _, kind := range []string{"A", "B"} {
		state := execute.State{Step: step.Step{Owner: owner, Object: definition(t, kind, "{type: object, required: [spec]}")}, Live: definition(t, kind, "{type: object}")}
		proofs.Mark(state.Live, owner)
		state.Live.SetResourceVersion("1")
		p.run.states = append(p.run.states, state)
	}
	return p
}

func definition(t *testing.T, kind, schema string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(fmt.Appendf(nil, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.x.io}, spec: {group: x.io, "+
		"scope: Namespaced, names: {kind: %[1]s, plural: %[1]s}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: %[2]s}}]}}", kind, schema), &out.Object))
	return out
}

// retry runs tryExisting again, and checks how often the objects of A and B have been read in total.
func (p *retried) retry(a, b int) {
	p.t.Helper()
	p.run.findings, p.run.recheckAt = preflight.Report{}, time.Time{}
	require.NoError(p.t, p.run.tryExisting(p.t.Context()))
	require.Equal(p.t, []int{a, b}, []int{p.stored.reads["A"], p.stored.reads["B"]})
}

func (p *retried) says(words string) {
	p.t.Helper()
	require.Len(p.t, p.run.findings.Refused, 1)
	require.Contains(p.t, p.run.findings.Refused[0].Message, words)
}

// waits checks the time until the next check of existing objects.
func (p *retried) waits(want time.Duration) {
	p.t.Helper()
	require.Equal(p.t, want, p.run.recheckAt.Sub(p.stored.clock.Now()))
}

func (p *retried) passes(d time.Duration) {
	p.stored.clock.SetTime(p.stored.clock.Now().Add(d))
}

func TestDoesNotReadInvalidObjectsAtEachRetry(t *testing.T) {
	p := retries(t)
	p.stored.namespaces["B"] = []string{"ns", "other"}
	p.retry(1, 1)
	p.says("2 in namespaces that the OperatorGroup does not select")
	p.retry(1, 1)
	p.says("2 in namespaces that the OperatorGroup does not select")
	p.waits(minRecheck)
	p.passes(minRecheck)
	p.retry(1, 2)
	p.waits(2 * minRecheck)
	p.passes(minRecheck)
	p.retry(1, 2)
	p.says("2 in namespaces that the OperatorGroup does not select")
	p.waits(minRecheck)

	t.Log("objects that may be mentioned are reported immediately")
	require.NoError(t, p.roles.Add(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "reads"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"x.io"}, Resources: []string{"B"}, Verbs: []string{"get"}}}}))
	p.retry(1, 2)
	p.says("ns/broken (spec: Required value), 1 in namespaces that the OperatorGroup does not select")

	t.Log("objects are read soon after a change, then at growing intervals")
	p.stored.namespaces["B"] = []string{"ns"}
	p.passes(minRecheck)
	p.retry(1, 3)
	p.says("ns/broken (spec: Required value)")
	p.waits(minRecheck)
	for n := range 9 {
		p.passes(maxRecheck)
		p.retry(1, 4+n)
	}
	p.waits(maxRecheck)

	t.Log("objects that take long to read are rarely read")
	p.stored.takes = 10 * time.Second
	p.passes(maxRecheck)
	p.retry(1, 13)
	p.waits(readShare * p.stored.takes)

	t.Log("a different CustomResourceDefinition or account requires a new check")
	p.run.states[1].Live.SetResourceVersion("2")
	p.retry(1, 14)
	p.run.account.UID = "2"
	p.retry(2, 15)

	t.Log("fixed objects are detected, and nothing is written based on earlier results")
	p.stored.namespaces["B"] = nil
	p.passes(time.Hour)
	p.retry(3, 16)
	require.True(t, p.run.findings.Clear())
	p.retry(4, 17)
	require.True(t, p.run.findings.Clear())
}

func TestDoesNotReadValidObjectsAgainWhileThePlanIsRefused(t *testing.T) {
	p := retries(t)
	p.retry(1, 1)
	for range 3 {
		p.run.findings = preflight.Report{}
		p.run.findings.Refuse("Deployment a", fmt.Errorf("exceeded quota"))
		require.NoError(t, p.run.tryExisting(t.Context()))
		p.says("exceeded quota")
	}
	require.Equal(t, map[string]int{"A": 1, "B": 1}, p.stored.reads)
	p.stored.namespaces["A"] = []string{"ns"}
	p.retry(2, 1) // A has become the obstacle, so B need not be read
	p.says("1 in namespaces that the OperatorGroup does not select")
}

func TestDoesNotCacheThatReadingIsForbidden(t *testing.T) {
	p := retries(t)
	p.stored.fails = apierrors.NewForbidden(schema.GroupResource{Group: "x.io", Resource: "A"}, "", fmt.Errorf("no"))
	p.retry(0, 0)
	require.Len(t, p.run.findings.Refused, 2)
	p.stored.fails = nil
	p.retry(1, 1)
	require.True(t, p.run.findings.Clear())
}

func TestContinuesAfterATimeoutAndReportsIt(t *testing.T) {
	p := retries(t)
	p.stored.namespaces = map[string][]string{"A": {"ns"}, "B": {"ns"}}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(existing.ErrSlow)
	require.NoError(t, p.run.tryExisting(ctx))
	require.True(t, p.run.findings.Clear())
	require.Len(t, p.run.findings.Unknown, 2)
	require.Equal(t, "not all objects of version v1 were checked", p.run.findings.Unknown[0].Why)

	ctx, stop := context.WithCancel(t.Context())
	stop()
	p = retries(t)
	p.stored.namespaces = map[string][]string{"A": {"ns"}}
	require.ErrorIs(t, p.run.tryExisting(ctx), context.Canceled)
}

func TestTreatsATargetBeyondTheLimitAsMissing(t *testing.T) {
	p := retries(t)
	pods := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	role := func(namespace string, values int) {
		rules := append(slices.Clone(pods), rbacv1.PolicyRule{Verbs: slices.Repeat([]string{"get"}, values), APIGroups: []string{""}, Resources: []string{"secrets"}})
		require.NoError(t, p.roles.Add(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reads"}, Rules: rules}))
	}
	examine := func() preflight.Report {
		return preflight.Examine(p.run.account.Identity(), []preflight.Need{{Namespace: "ns", Rules: pods}, {Namespace: "t", Rules: pods}}, p.run.permissionsIn)
	}
	role("ns", 1)
	role("t", rbac.MaxValues)
	report := examine()
	require.Nil(t, report.TooMuch)
	require.Empty(t, report.Unknown)
	require.Len(t, report.Findings, 1)
	require.Equal(t, "t", report.Findings[0].Namespace)

	role("ns", rbac.MaxValues)
	require.NotNil(t, examine().TooMuch, "too many rules in the account's own namespace")
}

func TestReportsObjectsThatAWebhookConverts(t *testing.T) {
	s, recorder, _ := newRun(operatorsv1alpha1.InstallPlanPhaseInstalling)
	s.warnConverted("things.example.com", nil)
	require.Empty(t, recorder.Events)
	s.warnConverted("things.example.com", []string{"v1", "v2"})
	require.Equal(t, "Warning CRDValidation the objects of CustomResourceDefinition things.example.com in version v1, v2 were not validated against the new schema, "+
		"because a webhook converts them", <-recorder.Events)
}
