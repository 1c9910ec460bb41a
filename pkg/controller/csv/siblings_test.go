package csv

import (
	"fmt"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/proofs"
)

// csvOf returns the ClusterServiceVersion described by text in the form "<name> [replaces <name>] [<phase>] [terminating]".
func csvOf(text string) *operatorsv1alpha1.ClusterServiceVersion {
	words := strings.Fields(text)
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: words[0]}}
	for i, w := range words[1:] {
		switch {
		case w == "replaces":
			csv.Spec.Replaces = words[i+2]
		case w == "terminating":
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

func TestALongChainIsExaminedUpToALimit(t *testing.T) {
	chain := func(n int) siblings {
		var texts []string
		for i := range n {
			texts = append(texts, fmt.Sprintf("v%d replaces v%d Replacing", i+2, i+1))
		}
		return family(append(texts, fmt.Sprintf("last replaces v%d Succeeded", n+1))...)
	}
	checked := 0
	checks := func(*operatorsv1alpha1.ClusterServiceVersion) bool { checked++; return true }
	next, succeeded := chain(maxFollowers-1).replacing(csvOf("v1"), checks)
	require.Equal(t, "v2", next)
	require.True(t, succeeded)
	next, succeeded = chain(10*maxFollowers).replacing(csvOf("v1"), checks)
	require.Equal(t, "v2", next)
	require.False(t, succeeded, "later versions are not examined")

	forged := siblings{}
	for i := range 10 * maxFollowers { // each version claims to have succeeded
		c := csvOf(fmt.Sprintf("w%d replaces w%d Succeeded", i+1, i))
		forged[c.Name] = c
	}
	checked = 0
	_, succeeded = forged.replacing(csvOf("w0"), func(*operatorsv1alpha1.ClusterServiceVersion) bool { checked++; return false })
	require.False(t, succeeded)
	require.LessOrEqual(t, checked, maxFollowers)
}

func TestReplacing(t *testing.T) {
	for _, row := range []struct {
		name      string
		all       siblings
		next      string
		succeeded bool
	}{
		{"nothing", family("x Succeeded"), "", false},
		{"a version that is not installed yet", family("v2 replaces v1 Installing"), "v2", false},
		{"a version that has succeeded", family("v2 replaces v1 Succeeded"), "v2", true},
		{"a version that was itself replaced", family("v2 replaces v1 Replacing", "v3 replaces v2 Succeeded"), "v2", true},
		{"a version that is deleted because it was replaced", family("v2 replaces v1 Deleting terminating", "v3 replaces v2 Succeeded"), "v2", true},
		{"a version that a user deletes", family("v2 replaces v1 Succeeded terminating"), "", false},
		{"two versions, one of which has succeeded", family("v2b replaces v1 Succeeded", "v2a replaces v1 Failed"), "v2a", true},
		{"a cycle", family("v2 replaces v1 Replacing", "v0 replaces v2 Replacing", "v1 replaces v0"), "v2", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			for range 10 { // the iteration order of a map is random
				next, succeeded := row.all.replacing(csvOf("v1"), func(c *operatorsv1alpha1.ClusterServiceVersion) bool { return c.Status.Message != "it does not run" })
				require.Equal(t, row.next, next)
				require.Equal(t, row.succeeded, succeeded)
			}
		})
	}
}

func TestIsBeforeFollowsReplacements(t *testing.T) {
	all := family("v1", "v2 replaces v1", "loop replaces loop2", "loop2 replaces loop")
	v3 := csvOf("v3 replaces v2")
	for name, want := range map[string]bool{"v1": true, "v2": true, "v3": false, "x": false, "": false} {
		require.Equal(t, want, all.isBefore(name, v3), name)
	}
	require.False(t, family("v1").isBefore("v1", v3), "v2 no longer exists")
	require.True(t, family("v1").isBefore("v2", v3), "v3 names v2 as the version that it replaces")
	require.False(t, all.isBefore("x", csvOf("v replaces loop")))
}

func TestOnlyVersionsOfALineageReplaceEachOther(t *testing.T) {
	r := &Reconciler{Options: Options{Proofs: proofs.Keys()}}
	csvFor := func(pkg string) *operatorsv1alpha1.ClusterServiceVersion {
		csv := csvOf("demo.v" + fmt.Sprint(len(pkg)))
		if pkg != "" {
			owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: csv.Namespace}, Proofs: proofs.Keys()}
			proofs.Mark(csv, owner)
		}
		return csv
	}
	for _, row := range []struct {
		this, other string
		want        bool
	}{{"a", "a", true}, {"a", "b", false}, {"", "", true}, {"a", "", false}, {"", "b", false}, {"demo", "", false}} {
		csv := csvFor(row.this)
		s := &scope{csv: csv, owner: r.ownerOf(csv, nil)}
		require.Equal(t, row.want, r.related(s, csvFor(row.other), nil), "%q and %q", row.this, row.other)
	}
}

func TestTheOlderOwnerOfAKindKeepsIt(t *testing.T) {
	owning := func(text string, age int, kinds ...string) *operatorsv1alpha1.ClusterServiceVersion {
		csv := csvOf(text)
		csv.CreationTimestamp = metav1.NewTime(start.Add(-time.Duration(age) * time.Second))
		for _, k := range kinds {
			csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned, operatorsv1alpha1.CRDDescription{Name: k})
		}
		return csv
	}
	mine := owning("mine", 5, "a.example.com", "b.example.com")
	siblingsOf := func(c *operatorsv1alpha1.ClusterServiceVersion) siblings { return siblings{c.Name: c} }
	older := owning("older", 6, "c.example.com", "b.example.com")
	require.Equal(t, "ClusterServiceVersion older owns CustomResourceDefinition b.example.com", contested(mine, siblingsOf(older), nil))
	require.Empty(t, contested(older, siblingsOf(mine), nil), "a new CSV does not affect an installed one")
	require.Empty(t, contested(mine, siblingsOf(older), siblingsOf(older)), "versions of one lineage")
	require.Empty(t, contested(owning("mine replaces older", 5, "b.example.com"), siblingsOf(older), nil), "a version that claims to replace the owner collides with the owner's objects")
	require.Empty(t, contested(mine, siblingsOf(owning("old terminating", 6, "a.example.com")), nil))
	require.Empty(t, contested(mine, siblingsOf(owning("other", 6, "c.example.com")), nil))
	require.NotEmpty(t, contested(mine, siblingsOf(owning("as-old", 5, "a.example.com")), nil), "the name decides if the age is the same")
	require.Empty(t, contested(owning("as-old", 5, "a.example.com"), siblingsOf(mine), nil))
}

func TestACSVWaitsForItsInstallPlan(t *testing.T) {
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
		{"a new plan", sub("v1", "InstallPlanNotYetReconciled", corev1.ConditionTrue), "InstallPlan install-x is in progress"},
		{"a plan in progress", sub("v1", "Installing", corev1.ConditionTrue), "InstallPlan install-x is in progress"},
		{"a plan that waits for approval", sub("v1", "RequiresApproval", corev1.ConditionTrue), ""},
		{"a completed plan", sub("v1", "", corev1.ConditionFalse), ""},
		{"a plan of another version", sub("v2", "Installing", corev1.ConditionTrue), ""},
		{"no plan", &operatorsv1alpha1.Subscription{Status: operatorsv1alpha1.SubscriptionStatus{CurrentCSV: "v1"}}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, waitsFor(&scope{csv: csvOf("v1"), subscription: row.sub}, nil))
		})
	}
	s := &scope{csv: csvOf("v1")}
	require.Equal(t, "ClusterServiceVersion v0 is not being replaced yet", waitsFor(s, csvOf("v0 Succeeded")))
	for _, back := range []string{"v0 Replacing", "v0 Deleting", "v0 Succeeded terminating"} {
		require.Empty(t, waitsFor(s, csvOf(back)), back)
	}
}
