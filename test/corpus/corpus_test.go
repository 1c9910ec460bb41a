package corpus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// workers is the number of concurrent cases. Each case keeps the API server busy for a second or more, because the API
// server publishes its whole OpenAPI document again whenever a CustomResourceDefinition is created or deleted.
const workers = 3

// outcome is a line of the result table.
type outcome struct {
	*testCase
	verdict string
	reason  string
	took    time.Duration
	rules   int
}

func (o outcome) String() string {
	return fmt.Sprintf("%-50s %-16s %-11s %6.1fs %4d rules  %s", o.published.name(), o.mode, o.verdict, o.took.Seconds(), o.rules,
		strings.ReplaceAll(o.reason, "\n", " "))
}

// The possible results of a case.
const (
	succeeded   = "Succeeded"
	unsupported = "unsupported"
	failed      = "FAILED"
)

func TestEveryBundleInstallsInOneRoundWithExactlyWhatIsPrinted(t *testing.T) {
	t.Parallel()
	odd := shaped(t)
	all := append(installed(t), odd...)
	w := newWorld(t, all)
	before, err := w.Census(t.Context(), env.Selection{})
	require.NoError(t, err)
	table, took := w.tryAll(t, all)
	for _, o := range table {
		if o.verdict == unsupported && slices.Contains(odd, o.testCase) {
			t.Errorf("%s: %s", o.name(), o.reason)
		}
	}
	w.checkAudit(t, table)
	w.checkLeft(t)
	w.checkDifference(t, before)
	checkRemovals(t, table)
	show(table, took)
}

// tryAll runs cases concurrently, each in a subtest.
func (w *world) tryAll(t *testing.T, all []*testCase) (table []outcome, took time.Duration) {
	t.Helper()
	var mu sync.Mutex
	s := &schedule{}
	for _, c := range all {
		s.waiting = append(s.waiting, &job{claims: c.claims(), do: func() {
			t.Run(c.name(), func(t *testing.T) {
				o := w.try(t.Context(), c)
				mu.Lock()
				defer mu.Unlock()
				table = append(table, o)
				fmt.Printf("corpus: %3d/%d %s\n", len(table), len(all), o)
				if o.verdict == failed {
					t.Error(o.reason)
				}
			})
		}})
	}
	start := time.Now()
	s.run(workers)
	return table, time.Since(start)
}

// try runs one case, from printing the RBAC to removing all objects.
func (w *world) try(ctx context.Context, c *testCase) outcome {
	o := outcome{testCase: c, verdict: failed}
	if reason := c.protected(); reason != "" {
		o.verdict, o.reason = unsupported, reason
		return o
	}
	printed, err := c.printed(ctx)
	if err != nil {
		o.reason = err.Error()
		return o
	}
	rules, err := granted(printed)
	if err != nil {
		o.reason = err.Error()
		return o
	}
	o.rules = rules.count()
	if reason := c.unserved(); reason != "" {
		o.verdict, o.reason = unsupported, reason
		return o
	}
	if c.sampled() {
		if err := w.mutateOnServer(ctx, c.relocated()); err != nil {
			o.reason = "with one verb removed: " + err.Error()
			return o
		}
	}
	outside, err := c.outside()
	if err != nil {
		o.reason = err.Error()
		return o
	}
	o.took, err = w.cycle(ctx, c, printed, outside)
	if err != nil {
		w.force(ctx, c, outside) // another case may use the same names
	}
	if err := errors.Join(err, w.clear(ctx, c, printed)); err != nil {
		o.reason = err.Error()
		return o
	}
	o.verdict = succeeded
	if n := len(c.CSV.Spec.WebhookDefinitions); n > 0 {
		o.reason = fmt.Sprintf("with %d webhooks", n)
	}
	return o
}

// cycle installs and uninstalls a bundle, once for each of the case's removals, and returns how long the first install took.
func (w *world) cycle(ctx context.Context, c *testCase, printed []*unstructured.Unstructured, outside []client.Object) (took time.Duration, err error) {
	start := time.Now()
	if err := w.prepare(ctx, c, printed); err != nil {
		return 0, fmt.Errorf("prepare: %w", err)
	}
	if c.extension {
		if took, err = w.install(ctx, c, start); err != nil {
			return took, err
		}
		return took, errors.Join(w.Client.Delete(ctx, c.clusterExtension()), w.waitDeleted(ctx, outside...))
	}
	before, err := w.censusOf(ctx, c)
	if err != nil {
		return 0, err
	}
	for i, r := range c.removals {
		lasted, err := w.install(ctx, c, start)
		if i == 0 {
			took = lasted
		}
		if err != nil {
			return took, fmt.Errorf("install before %s: %w", r, err)
		}
		if err := w.uninstall(ctx, c, r, before, outside); err != nil {
			return took, fmt.Errorf("%s: %w", r, err)
		}
	}
	return took, nil
}

// install installs a bundle and returns the time since start.
func (w *world) install(ctx context.Context, c *testCase, start time.Time) (time.Duration, error) {
	err := w.subscribe(ctx, c)
	if err == nil {
		err = w.until(ctx, func() error { return w.succeeded(ctx, c) })
	}
	if took := time.Since(start); err != nil {
		return took, fmt.Errorf("install: %w", err)
	}
	return time.Since(start), w.warned(ctx, c)
}

// checkAudit fails the test if a request from an account was refused, or was sent even though a verb was missing, except to
// publish the OperatorGroup. It prints how often each required permission was used.
func (w *world) checkAudit(t *testing.T, table []outcome) {
	t.Helper()
	events, err := w.Audited(t.Context(), func(e audit.Event) bool {
		_, ok := accountOf(e)
		return ok
	})
	require.NoError(t, err)
	sent := accounts(events)
	l := ledger{map[string]int{}, map[string]int{}}
	for _, o := range table {
		if o.verdict != succeeded {
			continue
		}
		needs, err := o.needs()
		require.NoError(t, err)
		if tr := sent[o.relocated().namespace]; tr != nil && (tr.writes > 0 || tr.requests > 0 && !o.extension) {
			t.Errorf("%s: %d requests, %d of them writes, were sent although a verb was missing", o.name(), tr.requests, tr.writes)
		}
		tr := sent[o.namespace]
		l.book(needs, tr)
		if tr != nil && len(tr.refused) > 0 {
			t.Errorf("%s: %d requests were refused: %q", o.name(), len(tr.refused), tr.refused)
		}
	}
	fmt.Println("corpus: requested permissions, and how often each was used (! never):")
	for _, line := range l.lines() {
		fmt.Println("corpus:", line)
	}
	counts, err := w.CheckIdentities(t.Context())
	for _, c := range counts {
		fmt.Println("audit:", c)
	}
	require.NoError(t, err)
}

// checkLeft fails the test if RBAC objects of a case still exist, or were recreated, after the case ended.
func (w *world) checkLeft(t *testing.T) {
	t.Helper()
	for _, list := range []client.ObjectList{
		&rbacv1.ClusterRoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.RoleBindingList{}, &rbacv1.RoleList{},
	} {
		require.NoError(t, w.until(t.Context(), func() error {
			if err := w.Client.List(t.Context(), list, client.HasLabels{names.LabelLineage}); err != nil {
				return err
			}
			return meta.EachListItem(list, func(obj runtime.Object) error {
				left, err := meta.Accessor(obj)
				return errors.Join(err, fmt.Errorf("%T %s/%s still exists", obj, left.GetNamespace(), left.GetName()))
			})
		}))
	}
}

func show(table []outcome, took time.Duration) {
	counts := map[string]int{}
	mutated := 0
	for _, o := range table {
		if o.verdict == succeeded && o.sampled() {
			mutated++
		}
		counts[o.verdict]++
	}
	fmt.Printf("corpus: %d cases in %s: %d succeeded in one round, %d unsupported, %d failed\n",
		len(table), took.Round(time.Second), counts[succeeded], counts[unsupported], counts[failed])
	fmt.Printf("corpus: %d of them first without one verb, which was reported exactly\n", mutated)
}
