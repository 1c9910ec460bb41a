package operator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

func operatorWith(components ...component) operator {
	return operator{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, components: components}
}

func ref(kind, namespace, name string, conditions ...operatorsv1.Condition) component {
	return component{ref: corev1.ObjectReference{APIVersion: "x/v1", Kind: kind, Namespace: namespace, Name: name}, conditions: conditions}
}

func lines(s operatorsv1.OperatorStatus) []string {
	var out []string
	for _, r := range s.Components.Refs {
		out = append(out, fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name))
	}
	return out
}

func TestTheStatusListsComponentsInAFixedOrder(t *testing.T) {
	components := []component{ref("Subscription", "t1", "s"), ref("Role", "t2", "a"), ref("Role", "t1", "b"), ref("ClusterServiceVersion", "t1", "c")}
	want := []string{"ClusterServiceVersion t1/c", "Role t1/b", "Role t2/a", "Subscription t1/s"}
	require.Equal(t, want, lines(desiredStatus(operatorWith(components...))))
	slices.Reverse(components)
	require.Equal(t, want, lines(desiredStatus(operatorWith(components...))))
	require.Equal(t, []metav1.LabelSelectorRequirement{{Key: "operators.coreos.com/demo.t1", Operator: metav1.LabelSelectorOpExists}},
		desiredStatus(operatorWith()).Components.LabelSelector.MatchExpressions)
}

func TestTheStatusIsLimited(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	condition := operatorsv1.Condition{Type: operatorsv1.ConditionType(long), Status: "True", Reason: long, Message: long}
	components := []component{ref("Subscription", "t1", "s", condition)}
	for i := range 2 * maxRefs {
		components = append(components, ref("Role", "t1", fmt.Sprintf("r%04d", i), slices.Repeat([]operatorsv1.Condition{condition}, 2*maxConditions)...))
	}
	got := desiredStatus(operatorWith(components...))
	require.Len(t, got.Components.Refs, maxRefs)
	require.Contains(t, lines(got), "Subscription t1/s", "the most important components are kept")
	require.Contains(t, lines(got), "Role t1/r0000")
	require.NotContains(t, lines(got), "Role t1/r0399")
	require.Len(t, got.Components.Refs[0].Conditions, maxConditions)
	require.Empty(t, got.Components.Refs[maxRefs-2].Conditions)
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.Less(t, len(text), 200<<10)
}

// A status that the API server rejects cannot be saved. A status that the API server changes would be written in an endless loop.
func TestTheStatusContainsNothingThatTheAPIServerChangesOrRejects(t *testing.T) {
	bad := "a\xff"
	got := bounded([]operatorsv1.Condition{{Type: operatorsv1.ConditionType(bad), Status: corev1.ConditionStatus(bad), Reason: bad, Message: bad,
		LastUpdateTime: &metav1.Time{}, LastTransitionTime: &metav1.Time{}}})
	require.Len(t, got, 1)
	for _, text := range []string{string(got[0].Type), string(got[0].Status), got[0].Reason, got[0].Message} {
		require.True(t, utf8.ValidString(text), "%q", text)
	}
	require.Nil(t, got[0].LastUpdateTime)
	require.Nil(t, got[0].LastTransitionTime)
}

func TestConditionsAreConverted(t *testing.T) {
	probed, changed := metav1.NewTime(time.Unix(2000, 0)), metav1.NewTime(time.Unix(1000, 0))
	with := func(probed *metav1.Time) []operatorsv1.Condition {
		return []operatorsv1.Condition{{Type: "T", Status: "True", Reason: "R", Message: "M", LastUpdateTime: probed, LastTransitionTime: &changed}}
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Status = operatorsv1alpha1.ClusterServiceVersionStatus{Phase: "T", Reason: "R", Message: "M", LastUpdateTime: &probed, LastTransitionTime: &changed}
	sub := &operatorsv1alpha1.Subscription{}
	sub.Status.Conditions = []operatorsv1alpha1.SubscriptionCondition{{Type: "T", Status: "True", Reason: "R", Message: "M", LastHeartbeatTime: &probed, LastTransitionTime: &changed}}
	plan := &operatorsv1alpha1.InstallPlan{}
	plan.Status.Conditions = []operatorsv1alpha1.InstallPlanCondition{{Type: "T", Status: "True", Reason: "R", Message: "M", LastUpdateTime: &probed, LastTransitionTime: &changed}}
	cond := &operatorsv2.OperatorCondition{}
	cond.Status.Conditions = []metav1.Condition{{Type: "T", Status: "True", Reason: "R", Message: "M", LastTransitionTime: changed}}
	deployment := &appsv1.Deployment{}
	deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: "T", Status: "True", Reason: "R", Message: "M", LastUpdateTime: probed, LastTransitionTime: changed}}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "T", Status: "True", Reason: "R", Message: "M", LastTransitionTime: changed}}
	service := &apiregistrationv1.APIService{}
	service.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: "T", Status: "True", Reason: "R", Message: "M", LastTransitionTime: changed}}
	for _, obj := range []client.Object{csv, sub, plan, deployment} {
		require.Equal(t, with(&probed), conditionsOf(obj), "%T", obj)
	}
	for _, obj := range []client.Object{cond, crd, service} {
		require.Equal(t, with(nil), conditionsOf(obj), "%T", obj)
	}
	require.Empty(t, conditionsOf(&corev1.ServiceAccount{}))
	require.Empty(t, bounded(conditionsOf(&operatorsv1alpha1.ClusterServiceVersion{})), "a ClusterServiceVersion without a phase")
}

func TestProbesAloneAreNoChange(t *testing.T) {
	at := func(probed, changed int64) operatorsv1.OperatorStatus {
		p, c := metav1.NewTime(time.Unix(probed, 0)), metav1.NewTime(time.Unix(changed, 0))
		return desiredStatus(operatorWith(ref("Deployment", "t1", "d", operatorsv1.Condition{Type: "Available", Status: "True", LastUpdateTime: &p, LastTransitionTime: &c})))
	}
	require.Equal(t, fingerprint(at(1, 1)), fingerprint(at(2, 1)))
	require.NotEqual(t, fingerprint(at(1, 1)), fingerprint(at(1, 2)))
	require.NotEqual(t, fingerprint(at(1, 1)), fingerprint(operatorsv1.OperatorStatus{}))
}

// Two operators never have the same name, however long the package name is.
func TestNamesIdentifyThePackageAndTheNamespace(t *testing.T) {
	long := "demo.t2." + strings.Repeat("x", 60)
	for _, row := range []struct {
		pkg  string
		want bool
	}{
		{"demo", true}, {"demo.t2", true}, {long, true}, {"", false}, {"Demo", false}, {"demo.", false}, {"a/b", false}, {strings.Repeat("x", 253), false},
	} {
		require.Equal(t, row.want, isNameable(row.pkg, "t1"), row.pkg)
		require.Equal(t, "t1", namespaceOf(operator{Lineage: ownerutil.Lineage{Package: row.pkg + "x", Namespace: "t1"}}.name()))
	}
	require.Empty(t, namespaceOf("demo"))
	require.Empty(t, namespaceOf(".demo"))
}
