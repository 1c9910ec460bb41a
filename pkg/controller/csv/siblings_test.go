package csv

import (
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// csvOf reads "<name> [replaces <name>] [<phase>] [gone]".
func csvOf(text string) *operatorsv1alpha1.ClusterServiceVersion {
	words := strings.Fields(text)
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: words[0]}}
	for i, w := range words[1:] {
		switch {
		case w == "replaces":
			csv.Spec.Replaces = words[i+2]
		case w == "gone":
			csv.DeletionTimestamp = &start
		case words[i] != "replaces":
			csv.Status.Phase = operatorsv1alpha1.ClusterServiceVersionPhase(w)
		}
	}
	return csv
}

func family(texts ...string) siblings {
	out := siblings{}
	for _, text := range texts {
		csv := csvOf(text)
		out[csv.Name] = csv
	}
	return out
}

func TestAVersionIsReplacedByWhatFollowsIt(t *testing.T) {
	for _, row := range []struct {
		name      string
		all       siblings
		next      string
		succeeded bool
	}{
		{"nothing", family("x Succeeded"), "", false},
		{"one that is not there yet", family("v2 replaces v1 Installing"), "v2", false},
		{"one that has succeeded", family("v2 replaces v1 Succeeded"), "v2", true},
		{"one that was replaced itself", family("v2 replaces v1 Replacing", "v3 replaces v2 Succeeded"), "v2", true},
		{"one that goes since it was replaced", family("v2 replaces v1 Deleting gone", "v3 replaces v2 Succeeded"), "v2", true},
		{"one that somebody deletes", family("v2 replaces v1 Succeeded gone"), "", false},
		{"two of which one has succeeded", family("v2b replaces v1 Succeeded", "v2a replaces v1 Failed"), "v2a", true},
		{"a circle", family("v2 replaces v1 Replacing", "v0 replaces v2 Replacing", "v1 replaces v0"), "v2", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			for range 10 { // of a map
				next, succeeded := row.all.replacing(csvOf("v1"))
				require.Equal(t, row.next, next)
				require.Equal(t, row.succeeded, succeeded)
			}
		})
	}
}

func TestIsBeforeFollowsWhatWasReplaced(t *testing.T) {
	all := family("v1", "v2 replaces v1", "loop replaces loop2", "loop2 replaces loop")
	v3 := csvOf("v3 replaces v2")
	for name, want := range map[string]bool{"v1": true, "v2": true, "v3": false, "x": false, "": false} {
		require.Equal(t, want, all.isBefore(name, v3), name)
	}
	require.False(t, family("v1").isBefore("v1", v3), "v2 is gone, so nobody knows")
	require.True(t, family("v1").isBefore("v2", v3), "what a version says it replaces")
	require.False(t, all.isBefore("x", csvOf("v replaces loop")))
}

func TestOnlyALineageReplacesItsVersions(t *testing.T) {
	of := func(pkg string) *operatorsv1alpha1.ClusterServiceVersion {
		csv := csvOf("demo.v" + fmt.Sprint(len(pkg)))
		if pkg != "" {
			lineage := ownerutil.Lineage{Package: pkg, Namespace: "t1"}
			csv.Labels = map[string]string{names.LabelLineage: lineage.Mark(), lineage.ComponentLabel(): ""}
		}
		return csv
	}
	for _, row := range []struct {
		this, other string
		want        bool
	}{{"a", "a", true}, {"a", "b", false}, {"", "", true}, {"a", "", false}, {"", "b", false}, {"demo", "", true}} {
		csv := of(row.this)
		s := &scope{csv: csv, owner: ownerOf(csv, nil)}
		require.Equal(t, row.want, related(s, of(row.other), nil), "%q and %q", row.this, row.other)
	}
}

func TestACSVWaitsForThePlanThatBringsIt(t *testing.T) {
	sub := func(current, reason string, status corev1.ConditionStatus) *operatorsv1alpha1.Subscription {
		out := &operatorsv1alpha1.Subscription{}
		out.Status.CurrentCSV = current
		out.Status.InstallPlanRef = &corev1.ObjectReference{Name: "install-x"}
		out.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: operatorsv1alpha1.SubscriptionInstallPlanPending, Status: status, Reason: reason})
		return out
	}
	for _, row := range []struct {
		name string
		sub  *operatorsv1alpha1.Subscription
		want string
	}{
		{"no Subscription", nil, ""},
		{"a plan that begins", sub("v1", "InstallPlanNotYetReconciled", corev1.ConditionTrue), "InstallPlan install-x is being carried out"},
		{"a plan that goes on", sub("v1", "Installing", corev1.ConditionTrue), "InstallPlan install-x is being carried out"},
		{"a plan that waits for approval", sub("v1", "RequiresApproval", corev1.ConditionTrue), ""},
		{"a plan that is done", sub("v1", "", corev1.ConditionFalse), ""},
		{"a plan of another version", sub("v2", "Installing", corev1.ConditionTrue), ""},
		{"no plan", &operatorsv1alpha1.Subscription{Status: operatorsv1alpha1.SubscriptionStatus{CurrentCSV: "v1"}}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, waitsFor(&scope{csv: csvOf("v1"), subscription: row.sub}, nil))
		})
	}
	s := &scope{csv: csvOf("v1")}
	require.Equal(t, "ClusterServiceVersion v0 has not stepped back yet", waitsFor(s, csvOf("v0 Succeeded")))
	for _, back := range []string{"v0 Replacing", "v0 Deleting", "v0 Succeeded gone"} {
		require.Empty(t, waitsFor(s, csvOf(back)), back)
	}
}
