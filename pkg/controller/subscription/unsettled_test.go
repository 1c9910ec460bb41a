package subscription

import (
	"context"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// The stored status refers to a plan that was just created. A status that only shows the plan's progress is delayed; each other
// change is written at once.
func TestProgressOfANewPlanIsNotWrittenAtOnce(t *testing.T) {
	t.Parallel()
	permissions := operatorsv1alpha1.InstallPlanCondition{Type: "PermissionsMissing", Status: corev1.ConditionFalse, Reason: "PermissionsHeld"}
	missing := operatorsv1alpha1.InstallPlanCondition{Type: "PermissionsMissing", Status: corev1.ConditionTrue, Reason: "AccountLacksPermissions"}
	exists := func(v *view) {
		v.installed = &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "a.v1"}}
	}
	const half = kit.SettleTime / 2
	clock := testclock.NewFakePassiveClock(time.Now())
	begun := func(v *view) { v.installed.CreationTimestamp = metav1.NewTime(clock.Now().Add(-half)) }
	for _, row := range []struct {
		name string
		age  time.Duration
		now  []func(*view)
		want time.Duration
	}{
		{"its CSV exists", half, []func(*view){plan("a.v1", ""), exists}, half},
		{"it is being executed", half, []func(*view){plan("a.v1", "Installing", permissions), exists}, half},
		{"nothing has changed", half, []func(*view){plan("a.v1", "")}, half},
		{"the plan is older", kit.SettleTime, []func(*view){plan("a.v1", ""), exists}, 0},
		{"the plan is older than its CSV", time.Hour, []func(*view){plan("a.v1", ""), exists, begun}, half},
		{"the plan was created in the future, according to this clock", -time.Second, []func(*view){plan("a.v1", ""), exists}, 0},
		{"it is complete", half, []func(*view){plan("a.v1", "Complete"), exists}, 0},
		{"it has failed", half, []func(*view){plan("a.v1", "Failed", because("InstallComponentFailed", "x"))}, 0},
		{"it waits for approval", half, []func(*view){plan("a.v1", "RequiresApproval")}, 0},
		{"it waits", half, []func(*view){plan("a.v1", "Installing", because("InstallCheckFailed", "x"))}, 0},
		{"permissions are missing", half, []func(*view){plan("a.v1", "Installing", missing)}, 0},
		{"another version", half, []func(*view){plan("a.v2", "")}, 0},
		{"another plan", half, []func(*view){plan("a.v1", ""), func(v *view) { v.plan.UID = "other" }}, 0},
		{"no plan", half, nil, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := &Reconciler{Options: Options{Clock: clock}, settling: kit.NewSettling()}
			stored := &operatorsv1alpha1.Subscription{}
			r.write(stored, given(plan("a.v1", "")))
			v := given(row.now...)
			if v.plan != nil {
				v.plan.CreationTimestamp = metav1.NewTime(clock.Now().Add(-row.age))
			}
			after := stored.DeepCopy()
			r.write(after, v)
			require.Equal(t, row.want, r.unsettled(v, &stored.Status, &after.Status))
		})
	}
}

func TestAnApprovalIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	r := &Reconciler{Options: Options{Clock: testclock.NewFakePassiveClock(time.Now())}, settling: kit.NewSettling()}
	stored := &operatorsv1alpha1.Subscription{}
	r.write(stored, given(plan("a.v1", "RequiresApproval")))
	v := given(plan("a.v1", "Installing"))
	v.plan.CreationTimestamp = metav1.NewTime(r.Clock.Now())
	after := stored.DeepCopy()
	r.write(after, v)
	require.Zero(t, r.unsettled(v, &stored.Status, &after.Status), "the csv controller waits for the plan from now on")
}

func TestTheStatusOfAnOutdatedVersionIsNotWritten(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	sub, patches := subscription("a", ""), 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sub).WithStatusSubresource(sub).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			patches++
			return c.SubResource(name).Patch(ctx, obj, p, opts...)
		},
	}).Build()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
	r := &Reconciler{Options: Options{Client: c, Catalogs: &catalog.Store{}, Clock: testclock.NewFakePassiveClock(time.Now())}, replaced: &status.Replaced{}, reloading: &reloading{}, settling: kit.NewSettling()}
	w := &world{}
	require.NoError(t, r.save(t.Context(), w, sub, given(plan("a.v1", ""))))
	require.Equal(t, 1, patches)
	require.NoError(t, r.save(t.Context(), w, sub, given(plan("a.v1", "Complete"))))
	require.Equal(t, 1, patches, "the event for the newer version is pending")

	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
	v := given(plan("a.v1", "Installing"))
	v.plan.CreationTimestamp = metav1.NewTime(r.Clock.Now())
	require.NoError(t, r.save(t.Context(), w, sub, v))
	require.Equal(t, 1, patches, "the status only shows the progress of the plan")
	require.Equal(t, kit.SettleTime, w.after)
	require.NoError(t, r.save(t.Context(), w, sub, given(plan("a.v1", "Complete"))))
	require.Equal(t, 2, patches)
}
