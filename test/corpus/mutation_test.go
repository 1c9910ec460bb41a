package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/rbac"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
)

// onServer determines how many cases are also tested on the real API server: one of every onServer cases.
const onServer = 6

// tally counts the results of mutations.
type tally struct {
	rules, named, excused int
	// wrong describes the mutations for which preflight did not report exactly the removed verb.
	wrong []string
}

func (t *tally) add(more tally) {
	t.rules += more.rules
	t.named += more.named
	t.excused += more.excused
	t.wrong = append(t.wrong, more.wrong...)
}

func TestReportsEveryRemovedVerb(t *testing.T) {
	mutateAll(t, cases(t, "corpus", chosen(t, sample), allModes))
}

// mutateAll removes one verb from each rule of each case, one at a time, and fails the test unless preflight reports exactly
// that verb.
func mutateAll(t *testing.T, cases []*testCase) {
	t.Helper()
	var mu sync.Mutex
	var all tally
	n := 0
	t.Run("all", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name(), func(t *testing.T) {
				t.Parallel()
				if reason := c.protected(); reason != "" {
					t.Skip(reason)
				}
				printed, err := c.printed(t.Context())
				require.NoError(t, err)
				rules, err := granted(printed)
				require.NoError(t, err)
				sum, _, err := c.mutate(rules)
				require.NoError(t, err)
				for _, wrong := range sum.wrong {
					t.Error(wrong)
				}
				mu.Lock()
				defer mu.Unlock()
				all.add(sum)
				n++
			})
		}
	})
	fmt.Printf("corpus: %d cases, %d rules; with one verb of each removed: %d reported exactly, %d not needed because of escalate or bind, %d wrong\n",
		n, all.rules, all.named, all.excused, len(all.wrong))
}

// printed runs "kubectl remit rbac" in this process and returns the objects that it prints for a case, including the account.
func (c *testCase) printed(ctx context.Context) ([]*unstructured.Unstructured, error) {
	cmd := rbac.NewCommand()
	var out, notes bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	cmd.SetArgs(c.args())
	if err := cmd.ExecuteContext(ctx); err != nil {
		return nil, fmt.Errorf("kubectl remit rbac %s: %w: %s", strings.Join(c.args(), " "), err, &notes)
	}
	return decode(out.Bytes())
}

// mutate removes one verb of each rule and runs the preflight.
func (c *testCase) mutate(rules grants) (tally, []mutation, error) {
	var out tally
	var good []mutation
	needs, err := c.needs()
	if err != nil {
		return out, nil, err
	}
	whole := preflight.Examine(c.identity(), needs, rules.permissions)
	if !whole.Clear() {
		out.wrong = append(out.wrong, "nothing removed: "+string(whole.Refusals()))
	}
	for _, m := range rules.mutations(c.name()) {
		out.rules++
		v, report := m.judge(c.identity(), needs)
		switch v {
		case named:
			out.named++
			good = append(good, m)
		case excused:
			out.excused++
		case superfluous:
			out.wrong = append(out.wrong, fmt.Sprintf("%s is not needed", m))
		case wrong:
			out.wrong = append(out.wrong, fmt.Sprintf("%s removed: %s", m, string(report.Refusals())))
		}
	}
	return out, good, nil
}

// sampled reports whether a case is also tested on the real API server.
func (c *testCase) sampled() bool {
	h := fnv.New32a()
	fmt.Fprint(h, c.name())
	return h.Sum32()%onServer == 0
}

// relocated returns a copy of the case in different namespaces.
func (c *testCase) relocated() *testCase {
	other := *c
	other.namespace = c.namespace + "-m"
	other.targets = nil
	for _, target := range c.targets {
		other.targets = append(other.targets, strings.Replace(target, c.namespace, other.namespace, 1))
	}
	return &other
}

// mutateOnServer installs with one verb removed: the InstallPlan or the ClusterExtension must report exactly that verb. No
// request may be sent as the account, except to publish the OperatorGroup, and no write as the identity of the
// ClusterExtension.
func (w *world) mutateOnServer(ctx context.Context, c *testCase) error {
	printed, err := c.printed(ctx)
	if err != nil {
		return err
	}
	rules, err := granted(printed)
	if err != nil {
		return err
	}
	_, good, err := c.mutate(rules)
	if err != nil || len(good) == 0 {
		return err
	}
	m := good[len(c.name())%len(good)]
	less, err := m.without(printed)
	if err != nil {
		return err
	}
	err = w.prepare(ctx, c, less)
	if err == nil {
		err = w.subscribe(ctx, c)
	}
	if err == nil {
		err = w.until(ctx, func() error { return w.names(ctx, c, m) })
	}
	sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "subscription"}}
	return errors.Join(err, client.IgnoreNotFound(w.Client.Delete(ctx, sub)), w.clear(ctx, c, less))
}

// names returns nil if exactly the removed verb is reported as missing. The error is final if the install is complete or
// other permissions are reported.
func (w *world) names(ctx context.Context, c *testCase, m mutation) error {
	text, err := w.reported(ctx, c, m)
	if err != nil {
		return err
	}
	objs, err := decode([]byte(text))
	if err != nil {
		return final{err}
	}
	missing, err := granted(objs)
	if err != nil {
		return final{err}
	}
	if got, want := atoms(missing), atoms(grants{m.namespace: {m.rule}}); !maps.Equal(got, want) {
		return final{fmt.Errorf("%s was removed, but %q is reported as missing", m, slices.Sorted(maps.Keys(got)))}
	}
	return nil
}

// reported returns, as manifests, the permissions that the case's plan or ClusterExtension reports as missing.
func (w *world) reported(ctx context.Context, c *testCase, m mutation) (string, error) {
	if c.extension {
		return w.reportedByExtension(ctx, c, m)
	}
	plans := &operatorsv1alpha1.InstallPlanList{}
	if err := w.cache.List(ctx, plans, client.InNamespace(c.namespace)); err != nil {
		return "", err
	}
	for i := range plans.Items {
		if p := &plans.Items[i]; p.Status.Phase == operatorsv1alpha1.InstallPlanPhaseComplete {
			return "", final{fmt.Errorf("installed without %s", m)}
		}
	}
	for i := range plans.Items {
		if plans.Items[i].Status.GetCondition(names.ConditionPermissionsMissing).Status != corev1.ConditionTrue {
			continue
		}
		report := &corev1.ConfigMap{}
		err := w.Client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: names.ReportPrefix + plans.Items[i].Name}, report)
		return report.Data[preflight.FileGrant], err
	}
	return "", fmt.Errorf("no plan reports missing permissions: %q", w.blockedIn(c.namespace))
}

// without returns the printed manifests without the removed verb.
func (m mutation) without(printed []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	rest := slices.Clone(m.rest[m.namespace])
	for _, obj := range printed {
		obj = obj.DeepCopy()
		out = append(out, obj)
		if !isGrant(obj) || obj.GetNamespace() != m.namespace {
			continue
		}
		// All rules of a scope are in its first role.
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rbacv1.ClusterRole{Rules: rest})
		if err != nil {
			return nil, err
		}
		rest = nil
		obj.Object["rules"] = content["rules"]
	}
	return out, nil
}
