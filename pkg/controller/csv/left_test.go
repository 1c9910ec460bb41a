package csv

import (
	"slices"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func ofOLM() *operatorsv1.OperatorGroup {
	og := group("og", "acct", "t1")
	og.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	return og
}

// inOLM reconciles the ClusterServiceVersion three times in a namespace that is left to OLM, and returns all writes and events. todo
// gives the controller something to do; if it is nil, this is the install.
func inOLM(t *testing.T, todo, leave change) (wrote []string) {
	t.Helper()
	w := newWorld(t)
	var err error
	w.r, err = New(w.options)
	require.NoError(t, err)
	if todo != nil {
		installed(w)
		todo(w)
		w.Requests()
	}
	leave(w)
	for range 3 {
		_, err = w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
		if !apierrors.IsConflict(err) {
			require.NoError(t, err)
		}
		wrote = append(wrote, w.Writes()...)
	}
	return wrote
}

func work() map[string]change {
	return map[string]change{
		"an install":                      nil,
		"a deleted Deployment":            without(deploymentOf("demo")),
		"a deleted ClusterServiceVersion": func(w *world) { w.Delete(w.csv.DeepCopy()) },
		"a forged phase":                  phase(phasePending, "Forged"),
	}
}

func TestNothingIsWrittenInANamespaceOfOLM(t *testing.T) {
	t.Parallel()
	for name, todo := range work() {
		require.Empty(t, inOLM(t, todo, with(ofOLM())), name)
	}
}

// A status that names a missing OperatorGroup would be wrong, and would stay.
func TestNothingIsWrittenInANamespaceOfOLMWhoseGroupIsNotCached(t *testing.T) {
	t.Parallel()
	for name, todo := range work() {
		require.Empty(t, inOLM(t, todo, func(w *world) {
			w.Delete(group("og", "acct"))
			w.Before("remit: list OperatorGroupList", func() { w.Put(ofOLM()) })
		}), name)
	}
}

// The cache does not show the annotation yet. Until it does, only the status is written.
func TestNothingIsWrittenAsTheAccountOnceTheAPIServerKnowsTheNamespaceIsLeftToOLM(t *testing.T) {
	t.Parallel()
	for name, todo := range work() {
		wrote := inOLM(t, todo, func(w *world) { w.Lag(group("og", "acct")); w.Put(ofOLM()) })
		wrote = slices.DeleteFunc(wrote, func(s string) bool {
			return strings.HasPrefix(s, "remit: patch status of ClusterServiceVersion ") || strings.HasPrefix(s, "event: ")
		})
		require.Empty(t, wrote, name)
	}
}

// What an operator leaves behind is removed as the account, which may be OLM's again.
func TestNothingIsCleanedUpInANamespaceOfOLM(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var err error
	w.r, err = New(w.options)
	require.NoError(t, err)
	_, err = w.r.cleaner(t.Context(), &scope{csv: w.csv, facts: Facts{CSV: w.csv, Obsolete: true}})
	require.NoError(t, err)
	w.Put(ofOLM())
	_, err = w.r.cleaner(t.Context(), &scope{csv: w.csv, facts: Facts{CSV: w.csv, Obsolete: true}})
	require.True(t, apierrors.IsConflict(err), "%v", err)
}
