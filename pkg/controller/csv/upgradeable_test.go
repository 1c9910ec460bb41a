package csv

import (
	"errors"
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/remit-olm/remit/pkg/controller/kit"
)

// reporting makes the OperatorCondition of the demo's first version report whether it is upgradeable.
func reporting(status metav1.ConditionStatus, edits ...func(*operatorsv2.OperatorCondition)) change {
	return func(w *world) {
		c := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0", Generation: 1}}
		c.Status.Conditions = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: status, Message: "migrating", ObservedGeneration: 1}}
		for _, edit := range edits {
			edit(c)
		}
		w.Put(c)
	}
}

func overridden(c *operatorsv2.OperatorCondition) {
	c.Spec.Overrides = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionTrue}}
}

func ofNeighbor(c *operatorsv2.OperatorCondition) { c.Namespace = "t2" }

func outdatedStatus(c *operatorsv2.OperatorCondition) { c.Generation = 2 }

// heldBack is the effect for a version that must not replace the demo's first version.
func heldBack(why string) effect {
	return effect{phase: phasePending, reason: reasonNotUpgradeable, message: "operator is not upgradeable: " + why, moves: "OperatorConditionNotUpgradeable"}
}

// afterNext returns the changes of a row: the demo is installed, and its next version has existed for longer than kit.SettleTime.
func afterNext(more ...change) []change {
	return append([]change{installed, next, passing(kit.SettleTime)}, more...)
}

func TestOperatorsHoldBackTheirUpgrade(t *testing.T) {
	t.Parallel()
	v2 := as("demo.v2.0.0")
	v3 := func(w *world) {
		c := parsed(w.t, demo, &operatorsv1alpha1.ClusterServiceVersion{})
		c.Name, c.Spec.Replaces, c.CreationTimestamp = "demo.v3.0.0", "demo.v2.0.0", metav1.NewTime(w.clock.Now().Add(-kit.SettleTime))
		w.Put(c)
		passing(kit.SettleTime)(w)
	}
	starts := effect{phase: phasePending, reason: reasonRequirementsUnknown, moves: "RequirementsUnknown",
		message: "requirements not yet checked: ClusterServiceVersion demo.v1.0.0 is not being replaced yet"}
	handsOver := effect{phase: phaseReplacing, reason: reasonBeingReplaced, message: "being replaced by csv: demo.v2.0.0", moves: "BeingReplaced"}
	checkRows(t, []row{
		{"the next version waits", afterNext(reporting(metav1.ConditionFalse), v2), heldBack("migrating")},
		{"the next version waits while the status is outdated", afterNext(reporting(metav1.ConditionTrue, outdatedStatus), v2),
			heldBack(`the operatorcondition status "Upgradeable"="True" is outdated`)},
		{"the installed version stays as it is", afterNext(reporting(metav1.ConditionFalse)), runs("", completed)},
		{"a version after the next one also waits", afterNext(reporting(metav1.ConditionFalse), v3, as("demo.v3.0.0")), heldBack("migrating")},
		{"a version that waits is not replaced either", afterNext(reporting(metav1.ConditionFalse), v2, settled, v3), heldBack("migrating").with(func(o *effect) { o.moves = "" })},
		{"the upgrade starts when the operator is upgradeable", afterNext(reporting(metav1.ConditionFalse), v2, settled, reporting(metav1.ConditionTrue)), starts},
		{"the installed version is replaced when the operator is upgradeable", afterNext(reporting(metav1.ConditionTrue)), handsOver},
		{"the upgrade starts with an override", afterNext(reporting(metav1.ConditionFalse), v2, settled, reporting(metav1.ConditionFalse, overridden)), starts},
		{"the installed version is replaced with an override", afterNext(reporting(metav1.ConditionFalse, overridden)), handsOver},
		{"an OperatorCondition in another namespace has no effect", afterNext(reporting(metav1.ConditionFalse, ofNeighbor)), handsOver},
		{"a version that is being replaced resumes", afterNext(settled, reporting(metav1.ConditionFalse), settled, available("demo")), runs("", completed)},
		{"a version that is already installed is not held back", []change{installed, next, settled, v2, settled, reporting(metav1.ConditionFalse), available("demo")},
			runs("InstallSucceeded", completed, removed()...)},
		{"an installed version that claims to be pending is not held back", []change{installed, next, settled, v2, settled, phase(phasePending, reasonRequirementsUnknown), reporting(metav1.ConditionFalse), as("demo.v1.0.0")},
			effect{phase: phaseReplacing, reason: reasonBeingReplaced, message: "being replaced by csv: demo.v2.0.0"}},
	})
}

func TestAnOperatorIsInstalledWithoutAccessToItsOperatorCondition(t *testing.T) {
	t.Parallel()
	all := func(verbs ...string) rbacv1.PolicyRule {
		return rule("operators.coreos.com", "operatorconditions", verbs...)
	}
	may := func(more ...rbacv1.PolicyRule) change {
		return may(append(append(withoutDeployments(), rule("apps", "deployments", "*")), more...)...)
	}
	denied := apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, "x", errors.New("exceeded quota"))
	checkRows(t, []row{
		{"the account has none of the permissions", []change{may()}, installs(toInstall, preparesOnly(deploys)...)},
		{"the account has two of three permissions", []change{may(all("get", "update"))}, installs(toInstall, preparesOnly(deploys)...)},
		{"the account may only escalate", []change{may(rule(rbacv1.GroupName, "roles", "escalate"))}, installs(toInstall, preparesOnly(deploys)...)},
		{"the account has the permissions", []change{may(all("get", "update", "patch"))}, installs(toInstall, prepares(deploys)...)},
		{"the permissions are granted later", []change{may(), installed, may(all("get", "update", "patch"))}, runs("", completed, reports()...)},
		{"the API server refuses the Role", []change{refusing("acct: apply Role t1/demo.v1.0.0-condition-#", denied)},
			installs(toInstall, preparesOnly(slices.Insert(slices.Repeat([]string{"acct: apply Role t1/demo.v1.0.0-condition-# (refused)"}, 4), 2, deploys)...)...)},
	})
}

func TestOnlyADifferentReasonWakes(t *testing.T) {
	t.Parallel()
	condition := func(status metav1.ConditionStatus) *operatorsv2.OperatorCondition {
		c := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0"}}
		c.Status.Conditions = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: status, Reason: "Busy"}}
		return c
	}
	yes, no, unrelated := condition(metav1.ConditionTrue), condition(metav1.ConditionFalse), condition(metav1.ConditionFalse)
	unrelated.Spec.Deployments = []string{"another"}
	wakes := holdChanged()
	require.True(t, wakes.Update(event.UpdateEvent{ObjectOld: yes, ObjectNew: no}))
	require.True(t, wakes.Update(event.UpdateEvent{ObjectOld: no, ObjectNew: yes}))
	require.False(t, wakes.Update(event.UpdateEvent{ObjectOld: no, ObjectNew: unrelated}))
	require.True(t, wakes.Create(event.CreateEvent{Object: no}))
	require.False(t, wakes.Create(event.CreateEvent{Object: yes}))
	require.True(t, wakes.Delete(event.DeleteEvent{Object: no}))
	require.False(t, wakes.Delete(event.DeleteEvent{Object: yes}))

	w := newWorld(t)
	installed(w)
	next(w)
	require.ElementsMatch(t, append(request("t1", "demo.v1.0.0"), request("t1", "demo.v2.0.0")...), w.r.conditioned(t.Context(), no))
	no.Namespace = "t2"
	require.Equal(t, request("t2", "demo.v1.0.0"), w.r.conditioned(t.Context(), no))
}
