package subscription

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// written returns a version of package op that an InstallPlan has written.
func written(name string, phase csvPhase) operatorsv1alpha1.ClusterServiceVersion {
	csv := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	csv.Status.Phase = phase
	proofs.Mark(&csv, ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "ns"}, CSV: name, Proofs: proofs.Keys()})
	return csv
}

// refers makes the status of a Subscription refer to a plan and, unless condition is "", sets a condition as Remit does.
func refers(sub *operatorsv1alpha1.Subscription, plan string, condition operatorsv1alpha1.SubscriptionConditionType) {
	sub.Status.CurrentCSV, sub.Status.InstallPlanRef = "op.v1", &corev1.ObjectReference{Name: plan}
	if condition != "" {
		sub.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: condition, Status: corev1.ConditionTrue, Reason: names.ReasonPlanIncomplete})
	}
}

// missesPlan makes the status of a Subscription as OLM leaves it after its plan was deleted, complete or not.
func missesPlan(sub *operatorsv1alpha1.Subscription) {
	sub.Status = operatorsv1alpha1.SubscriptionStatus{}
	refers(sub, "install-abcde", "")
	sub.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: operatorsv1alpha1.SubscriptionInstallPlanMissing,
		Status: corev1.ConditionTrue, Reason: operatorsv1alpha1.ReferencedInstallPlanNotFound})
}

func TestAVersionIsUnfinishedUntilItsPlanIsComplete(t *testing.T) {
	const (
		pending, failed, missing = operatorsv1alpha1.SubscriptionInstallPlanPending, operatorsv1alpha1.SubscriptionInstallPlanFailed, operatorsv1alpha1.SubscriptionInstallPlanMissing
		installing, complete     = operatorsv1alpha1.InstallPlanPhaseInstalling, operatorsv1alpha1.InstallPlanPhaseComplete
		planFailed, succeeded    = operatorsv1alpha1.InstallPlanPhaseFailed, operatorsv1alpha1.CSVPhaseSucceeded
	)
	inPhase := func(p resolver.Plan, generation int, phase planPhase) func(*world) {
		return func(w *world) {
			ip := made(t, p, generation)
			ip.Status.Phase = phase
			w.plans = append(w.plans, ip)
		}
	}
	status := func(plan string, c operatorsv1alpha1.SubscriptionConditionType) func(*world) {
		return func(w *world) { refers(&w.subscriptions[0], plan, c) }
	}
	first := pins("a", "op.v1")
	second := first.Following(first.Name())
	for _, row := range []struct {
		name  string
		phase csvPhase
		world []func(*world)
		want  bool
	}{
		{"its plan is being executed", "", []func(*world){inPhase(first, 1, installing), status(first.Name(), pending)}, true},
		{"its plan is complete, but the status does not show it yet", "", []func(*world){inPhase(first, 1, complete), status(first.Name(), pending)}, false},
		{"its plan has failed", succeeded, []func(*world){inPhase(first, 1, planFailed), status(first.Name(), failed)}, true},
		{"the plan of its upgrade has failed", succeeded, []func(*world){inPhase(pins("a", "op.v2"), 1, planFailed), status(pins("a", "op.v2").Name(), failed)}, false},
		{"its plan was deleted", "", []func(*world){status("install-x", pending)}, true},
		{"its plan was deleted, and it has succeeded", succeeded, []func(*world){status("install-x", pending)}, true},
		{"its plan was deleted after it failed", "", []func(*world){status("install-x", failed)}, true},
		{"its plan was deleted, and the content is not available", "", []func(*world){status("install-x", missing)}, true},
		{"its complete plan was deleted", "", []func(*world){status("install-x", "")}, false},
		{"OLM did not find its plan", succeeded, []func(*world){func(w *world) { missesPlan(&w.subscriptions[0]) }}, false},
		{"a user's Subscription to the package exists", "", []func(*world){status("install-x", pending), func(w *world) {
			w.subscriptions[0].Annotations = map[string]string{names.AnnotationGeneratedBy: "other"}
			w.subscriptions = append(w.subscriptions, *subscription("b", ""))
		}}, false},
		{"its plan is being deleted", "", []func(*world){inPhase(first, 1, installing), status(first.Name(), pending), func(w *world) {
			w.plans[0].DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}}, true},
		{"the plan of its upgrade was deleted", succeeded, []func(*world){status("install-x", pending), func(w *world) { w.subscriptions[0].Status.CurrentCSV = "op.v2" }}, false},
		{"the plan of its predecessor is complete, but its own was deleted", "", []func(*world){inPhase(pins("a", "op.v0"), 1, complete), status("install-x", pending)}, true},
		{"its first plan is complete, but the one that wrote it again was deleted", "", []func(*world){inPhase(first, 1, complete), status(second.Name(), pending)}, true},
		{"the plan that follows the deleted one is complete", "", []func(*world){inPhase(second, 2, complete), status(first.Name(), pending)}, false},
		{"the Subscription was created again", "", nil, true},
		{"the Subscription was created again after the version succeeded", succeeded, nil, false},
		{"the plan of the deleted Subscription still exists", "", []func(*world){inPhase(pins("gone", "op.v1"), 1, installing)}, true},
		{"another Subscription has its plan", "", []func(*world){inPhase(pins("b", "op.v1"), 1, complete), func(w *world) {
			w.subscriptions = append(w.subscriptions, *subscription("b", ""))
		}}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := offering(subscription("a", ""))
			w.csvs = []operatorsv1alpha1.ClusterServiceVersion{written("op.v1", row.phase)}
			for _, change := range row.world {
				change(w)
			}
			require.Equal(t, row.want, w.isUnfinished(&w.subscriptions[0], w.installedFor(&w.subscriptions[0])))
		})
	}
	require.False(t, offering().isUnfinished(subscription("a", ""), nil))
}

// finishing reconciles a namespace with one Subscription and its installed version op.v1, and returns the view and the created objects.
func finishing(t *testing.T, change func(*world)) (*view, []client.Object) {
	t.Helper()
	c := &creating{}
	live := fake.NewClientBuilder().WithScheme(proofs.Scheme()).Build()
	r := &Reconciler{Options: Options{Client: c, Live: live, Clock: clock.RealClock{}}, indexes: &resolver.Indexes{}, answers: &answers{}, long: newLongQueue(clock.RealClock{}, &answers{})}
	w := offering(subscription("a", operatorsv1alpha1.ApprovalManual))
	snapshot, _ := w.input.Catalogs.Get(catalogKey)
	snapshot.Reader = greedy{}
	server := recorded.New(t, nil)
	w.input.Account, w.input.Targets, w.input.RBAC, w.tracked = scoped.Account{Namespace: "ns", Name: "installer"}, []string{"ns"}, server.RBAC(), server.RBAC()
	w.csvs = []operatorsv1alpha1.ClusterServiceVersion{written("op.v1", operatorsv1alpha1.CSVPhasePending)}
	refers(&w.subscriptions[0], "install-x", operatorsv1alpha1.SubscriptionInstallPlanPending)
	change(w)
	views, err := r.advance(t.Context(), w)
	require.NoError(t, err)
	r.write(&w.subscriptions[0], *views["a"])
	return views["a"], c.made
}

func TestAnUnfinishedVersionGetsAnotherPlan(t *testing.T) {
	v, created := finishing(t, func(*world) {})
	require.Len(t, created, 1)
	ip, ok := created[0].(*operatorsv1alpha1.InstallPlan)
	require.True(t, ok)
	require.Equal(t, ip.Name, v.plan.Name)
	require.False(t, ip.Spec.Approved, "it needs its own approval")
	plan, err := resolver.Decode("ns", ip.Name, ip.Annotations[names.AnnotationPlan])
	require.NoError(t, err)
	require.Equal(t, "op.v1", plan.Pins[0].Bundle)
	require.Equal(t, "install-x", plan.Pins[0].Again)
	require.Empty(t, plan.Pins[0].Replaces)

	_, created = finishing(t, func(w *world) { // the plan exists now, and waits for its approval
		ip.Status.Phase = operatorsv1alpha1.InstallPlanPhaseRequiresApproval
		w.plans = []operatorsv1alpha1.InstallPlan{*ip}
	})
	require.Empty(t, created)

	_, created = finishing(t, func(w *world) { w.subscriptions[0].Status = operatorsv1alpha1.SubscriptionStatus{} })
	require.Len(t, created, 1, "the Subscription was created again")
	_, created = finishing(t, func(w *world) { w.subscriptions[0].Status.Conditions = nil })
	require.Empty(t, created, "the plan was complete")

	_, created = finishing(t, func(w *world) {
		w.csvs[0].Spec.Replaces = "op.v0"
		w.csvs = append(w.csvs, written("op.v0", operatorsv1alpha1.CSVPhaseSucceeded))
	})
	require.Contains(t, created[0].GetAnnotations()[names.AnnotationPlan], `"replaces":"op.v0"`)
}

func TestAnOperatorOfWhichOLMDeletedThePlanGetsNoPlan(t *testing.T) {
	for name, change := range map[string]func(*world){
		"its channel contains the version": func(*world) {},
		"its channel dropped the version": func(w *world) {
			snapshot, _ := w.input.Snapshot(catalogKey)
			delete(snapshot.Packages["op"].Channels["stable"].Entries, "op.v1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, created := finishing(t, func(w *world) {
				change(w)
				w.csvs[0].Status.Phase = operatorsv1alpha1.CSVPhaseSucceeded
				snapshot, _ := w.input.Snapshot(catalogKey)
				delete(snapshot.Packages["op"].Channels["stable"].Entries, "op.v2") // there is no upgrade
				missesPlan(&w.subscriptions[0])
			})
			require.Empty(t, created)
			require.Nil(t, missingPlan(*v))
		})
	}
}

func TestAVersionOfTwoSubscriptionsGetsOnePlan(t *testing.T) {
	_, created := finishing(t, func(w *world) {
		generated := subscription("b", "")
		generated.Name, generated.Annotations = "generated", map[string]string{names.AnnotationGeneratedBy: "other"}
		refers(generated, "install-y", operatorsv1alpha1.SubscriptionInstallPlanPending)
		w.subscriptions = append(w.subscriptions, *generated)
	})
	require.Len(t, created, 1)
	plan, err := resolver.Decode("ns", created[0].GetName(), created[0].GetAnnotations()[names.AnnotationPlan])
	require.NoError(t, err)
	require.Equal(t, "sub", plan.Pins[0].Subscription)
}

// plannedFirst returns the InstallPlan that installs op.v1, as this package creates it.
func plannedFirst(t *testing.T, phase planPhase, replaces string) operatorsv1alpha1.InstallPlan {
	t.Helper()
	first := pins("a", "op.v1")
	content, err := greedy{}.Content(t.Context(), "", "", "op.v1")
	require.NoError(t, err)
	pin := &first.Pins[0]
	pin.Subscription, pin.CatalogNamespace, pin.Catalog, pin.Channel, pin.Digest, pin.Replaces = "sub", "ns", "cat", "stable", content.Digest(), replaces
	ip := made(t, first, 1)
	ip.Status.Phase = phase
	return ip
}

func TestAFailedPlanIsNotTriedAgainWithoutTheVersionThatItReplaced(t *testing.T) {
	for _, replaces := range []string{"", "op.v0"} {
		ip := plannedFirst(t, operatorsv1alpha1.InstallPlanPhaseFailed, replaces)
		v, created := finishing(t, func(w *world) {
			w.csvs[0].Spec.Replaces = "op.v0" // deleted since
			refers(&w.subscriptions[0], ip.Name, operatorsv1alpha1.SubscriptionInstallPlanFailed)
			w.plans = []operatorsv1alpha1.InstallPlan{ip}
		})
		require.Empty(t, created, replaces)
		require.Equal(t, ip.Name, v.plan.Name)
	}
}

func TestASpentPlanDoesNotFinishAVersionThatALaterPlanWrote(t *testing.T) {
	v, created := finishing(t, func(w *world) {
		w.plans = []operatorsv1alpha1.InstallPlan{plannedFirst(t, operatorsv1alpha1.InstallPlanPhaseComplete, "")}
	})
	require.Len(t, created, 1)
	require.Equal(t, created[0].GetName(), v.plan.Name)
}

func TestReportsAnUnfinishedVersionThatCannotBeFinished(t *testing.T) {
	drop := func(w *world) {
		snapshot, _ := w.input.Catalogs.Get(catalogKey)
		delete(snapshot.Packages["op"].Channels["stable"].Entries, "op.v1")
	}
	v, created := finishing(t, drop)
	require.Empty(t, created)
	require.NotNil(t, missingPlan(*v))

	stuck := made(t, pins("a", "op.v1"), 1)
	stuck.Status.Phase, stuck.Status.Conditions = operatorsv1alpha1.InstallPlanPhaseInstalling, []operatorsv1alpha1.InstallPlanCondition{because(names.ReasonBundleContentUnavailable, "no content")}
	v, created = finishing(t, func(w *world) {
		drop(w)
		w.plans = []operatorsv1alpha1.InstallPlan{stuck}
	})
	require.Empty(t, created)
	pending, failed := planConditions(*v)
	require.Nil(t, failed)
	require.Equal(t, "Installing", pending.reason)
	require.Equal(t, "no content\nTo install the version that the Subscription selects now instead, delete the ClusterServiceVersion: kubectl delete csv op.v1 -n ns", string(pending.message))
	require.Nil(t, missingPlan(*v))
}

func TestMissingPlan(t *testing.T) {
	unfinished := func(v *view) { v.unfinished, v.installed.Namespace = true, "ns" }
	v := given(installed("op.v1", operatorsv1alpha1.CSVPhaseSucceeded), unfinished)
	why := missingPlan(v)
	require.Equal(t, "IncompleteInstallPlanNotFound", why.reason)
	require.Contains(t, why.message, "The InstallPlan of ClusterServiceVersion op.v1 was deleted and may not have been complete")
	require.Contains(t, why.message, "kubectl delete csv op.v1 -n ns")
	require.Nil(t, missingPlan(given(installed("op.v1", operatorsv1alpha1.CSVPhaseSucceeded))))
	require.Nil(t, missingPlan(given(installed("op.v1", ""), unfinished, plan("op.v1", operatorsv1alpha1.InstallPlanPhaseNone))))

	v = given(installed("op.v1", ""), unfinished, plan("op.v1", operatorsv1alpha1.InstallPlanPhaseFailed, because("InstallComponentFailed", "bad")))
	_, failed := planConditions(v)
	require.Contains(t, failed.message, "bad\nClusterServiceVersion op.v1 exists, but objects of this version may be missing. To try again, delete the InstallPlan: kubectl delete installplan install-a -n ns\n")
}

func TestAnUpgradeTakesPrecedenceOverFinishing(t *testing.T) {
	w := offering(subscription("a", ""))
	w.csvs = []operatorsv1alpha1.ClusterServiceVersion{written("op.v1", operatorsv1alpha1.CSVPhaseSucceeded)}
	refers(&w.subscriptions[0], "install-x", operatorsv1alpha1.SubscriptionInstallPlanMissing)
	views := w.views()
	require.Len(t, w.toFinish(views, nil), 1)
	require.Empty(t, w.toFinish(views, [][]resolver.Choice{{{Bundle: "op.v2", Replaces: "op.v1", Subscription: &w.subscriptions[0]}}}))
	views["a"].tooLarge = true
	require.Empty(t, w.toFinish(views, nil))
}

// The status must not depend on what a catalog of another namespace contains.
func TestAnUnfinishedVersionDoesNotRevealCatalogsOfOtherNamespaces(t *testing.T) {
	report := func(packages map[string]*catalog.Package) string {
		v, created := finishing(t, func(w *world) {
			w.subscriptions[0].Spec.CatalogSourceNamespace = "other"
			w.input.Catalogs.(*catalog.Store).Put(&catalog.Snapshot{Key: types.NamespacedName{Namespace: "other", Name: "cat"}, Digest: "b", Packages: packages, Reader: greedy{}})
		})
		require.Empty(t, created)
		require.NotNil(t, missingPlan(*v))
		require.Nil(t, v.unpackFailed)
		return v.problem.Message
	}
	own, _ := offering().input.Snapshot(catalogKey)
	without := report(nil)
	require.Contains(t, without, "is not visible from namespace ns")
	require.Equal(t, without, report(own.Packages))
}
