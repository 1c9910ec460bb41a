package copiedcsv

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// world is an in-memory cluster with ClusterServiceVersion op.v1 in namespace home, whose account may create
// ClusterServiceVersions in all namespaces.
type world struct {
	*recorded.Server
	t *testing.T
	r *Reconciler
}

func original() *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
		Namespace: "home", Name: "op.v1",
		Labels:      map[string]string{"team": "a", names.LabelComponentPrefix + "op.home": "", "argocd.argoproj.io/instance": "x", names.LabelLineage: "y"},
		Annotations: map[string]string{"operatorframework.io/suggested-namespace": "n", corev1.LastAppliedConfigAnnotation: "{}", names.AnnotationTargetNamespaces: "", "cert-manager.io/inject-ca-from": "a/b"},
	}}
	csv.Spec.DisplayName = "The operator"
	csv.Status.Phase, csv.Status.Reason, csv.Status.Message = operatorsv1alpha1.CSVPhaseSucceeded, operatorsv1alpha1.CSVReasonInstallSuccessful, "done"
	return csv
}

func group(targets ...string) *operatorsv1.OperatorGroup {
	return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "og"},
		Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct", TargetNamespaces: targets}}
}

func allowed(verbs ...string) []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "copies"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"clusterserviceversions"}, Verbs: verbs}}},
		binding("copies", ""),
	}
}

// binding binds ClusterRole copies to the account, in a namespace or cluster-wide.
func binding(name, namespace string) client.Object {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "home", Name: "acct"}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "copies"}
	if namespace == "" {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: ref}
	}
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: subjects, RoleRef: ref}
}

func newWorld(t *testing.T, og *operatorsv1.OperatorGroup, namespaces ...string) *world {
	t.Helper()
	w := &world{t: t, Server: recorded.New(t, indexes, original(), og, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "acct"}})}
	for _, name := range append(namespaces, "home") {
		w.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	w.Put(allowed("create")...)
	w.restart()
	return w
}

func indexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(Index(ctx, indexer), IndexSources(ctx, indexer))
}

func (w *world) restart(protected ...string) {
	w.t.Helper()
	var err error
	w.r, err = New(Options{
		Client: w.Cached("remit"), Copies: w.Cached("remit"), Live: w.Client("remit"), RBAC: w.RBAC(), Recorder: w.Recorder(), Proofs: proofs.Keys(), Protected: protected,
	})
	require.NoError(w.t, err)
}

// settle reconciles until nothing is left to do, and returns the writes.
func (w *world) settle() []string {
	w.t.Helper()
	for range 100 {
		result, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: "op.v1"}})
		require.NoError(w.t, err)
		if result.RequeueAfter == 0 {
			return w.Writes()
		}
	}
	w.t.Fatal("still writing")
	return nil
}

func (w *world) csv(namespace string) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "op.v1"}}
	if !w.Has(csv) {
		return nil
	}
	w.Get(csv)
	return csv
}

func made(namespaces ...string) (out []string) {
	for _, ns := range namespaces {
		out = append(out, "remit: create ClusterServiceVersion "+ns+"/op.v1", "remit: patch status of ClusterServiceVersion "+ns+"/op.v1")
	}
	return out
}

func TestCopiesIntoTheTargets(t *testing.T) {
	w := newWorld(t, group("home", "t1", "t2", "missing"), "t1", "t2", "other")
	require.Equal(t, made("t1", "t2"), w.settle())
	got := w.csv("t1")
	require.Equal(t, map[string]string{"team": "a", names.LabelCopiedFrom: "home"}, got.Labels)
	require.Equal(t, "The operator", got.Spec.DisplayName)
	require.Equal(t, operatorsv1alpha1.CSVPhaseSucceeded, got.Status.Phase)
	require.Equal(t, operatorsv1alpha1.CSVReasonCopied, got.Status.Reason)
	require.Equal(t, "The operator is running in home but is managing this namespace", got.Status.Message)
	hash, proof := got.Annotations[names.AnnotationCopyHash], got.Annotations[names.AnnotationProof]
	require.NotEmpty(t, hash)
	require.NotEmpty(t, proof)
	require.Equal(t, map[string]string{
		"operatorframework.io/suggested-namespace": "n", names.AnnotationOperatorGroup: "og", names.AnnotationOperatorNamespace: "home",
		names.AnnotationCopyHash: hash, names.AnnotationProof: proof,
	}, got.Annotations)
	require.Empty(t, w.settle())
}

// unlistable fails to list Namespaces and InstallPlans.
type unlistable struct{ client.Client }

func (c unlistable) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	switch list.(type) {
	case *corev1.NamespaceList, *operatorsv1alpha1.InstallPlanList:
		return errors.New("takes longer with each namespace of the cluster")
	}
	return c.Client.List(ctx, list, o...)
}

func TestAnOperatorForItsOwnNamespaceIsQuick(t *testing.T) {
	w := newWorld(t, group("home"), "t1")
	w.r.Client = unlistable{w.r.Client}
	require.Empty(t, w.settle())
	w = newWorld(t, group("home", "t1"), "t1")
	w.r.Client = unlistable{w.r.Client}
	key := types.NamespacedName{Namespace: "home", Name: "op.v1"}
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	require.ErrorContains(t, err, "takes longer")
	require.True(t, w.r.reaching.Get(key), "a namesake that appears from now on wakes it")
}

func TestWritesNothingIfNothingChangesInManyNamespaces(t *testing.T) {
	var targets []string
	for i := range 300 {
		targets = append(targets, fmt.Sprintf("t%03d", i))
	}
	w := newWorld(t, group(), targets...)
	require.Len(t, w.settle(), 600)
	require.Empty(t, w.settle())

	// One reconcile of a changed source writes a limited number of copies.
	recorded.Edit(w.Server, original(), func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Spec.DisplayName = "Renamed" })
	result, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: "op.v1"}})
	require.NoError(t, err)
	require.NotZero(t, result.RequeueAfter)
	require.LessOrEqual(t, len(w.Writes()), 2*maxCopies)
	w.settle()
	require.Equal(t, "Renamed", w.csv("t299").Spec.DisplayName)
	require.Empty(t, w.settle())
}

func TestCopiesOnlyWhereTheAccountMayCreate(t *testing.T) {
	w := newWorld(t, group(), "t1", "t2")
	w.Delete(binding("copies", ""))
	w.Put(binding("copies", "t2"))
	require.Equal(t, made("t2"), w.settle())
	w.Delete(binding("copies", "t2"))
	require.Equal(t, []string{"remit: delete ClusterServiceVersion t2/op.v1"}, w.settle())

	w.Put(allowed("get", "update", "delete")...)
	require.Empty(t, w.settle())
}

func TestDeletesCopiesWithoutASource(t *testing.T) {
	deletes := []string{"remit: delete ClusterServiceVersion t1/op.v1"}
	for name, change := range map[string]func(*world){
		"the source is deleted": func(w *world) { w.Delete(original()) },
		"the group is deleted":  func(w *world) { w.Delete(group()) },
		"there are two groups":  func(w *world) { other := group("t1"); other.Name = "other"; w.Put(other) },
		"the target is removed": func(w *world) {
			recorded.Edit(w.Server, group(), func(og *operatorsv1.OperatorGroup) { og.Spec.TargetNamespaces = []string{"t2"} })
		},
		"the account is deleted": func(w *world) {
			w.Delete(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "acct"}})
		},
		"the reason must not be copied": func(w *world) {
			recorded.Edit(w.Server, original(), func(c *operatorsv1alpha1.ClusterServiceVersion) {
				c.Status.Reason = operatorsv1alpha1.CSVReasonUnsupportedOperatorGroup
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("t1"), "t1")
			require.Equal(t, made("t1"), w.settle())
			change(w)
			require.Equal(t, deletes, w.settle())
		})
	}
	w := newWorld(t, group("t1"), "t1")
	w.settle()
	recorded.Edit(w.Server, original(), func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Status.Phase = "" })
	require.Empty(t, w.settle(), "the phase is not known yet")
}

func TestRevertsChanges(t *testing.T) {
	for name, edit := range map[string]func(*operatorsv1alpha1.ClusterServiceVersion){
		"spec":   func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Spec.DisplayName = "x" },
		"status": func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Status.Phase = operatorsv1alpha1.CSVPhaseFailed },
		"labels": func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Labels["x"] = "y" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("t1"), "t1")
			w.settle()
			before := w.csv("t1")
			recorded.Edit(w.Server, w.csv("t1"), edit)
			require.Equal(t, []string{"remit: patch status of ClusterServiceVersion t1/op.v1", "remit: patch ClusterServiceVersion t1/op.v1"}, w.settle())
			after := w.csv("t1")
			require.Equal(t, []any{before.Spec, before.Status, before.Labels, before.Annotations}, []any{after.Spec, after.Status, after.Labels, after.Annotations})
			require.Empty(t, w.settle())
		})
	}
}

func TestDeletesCopiesWithWrongAnnotations(t *testing.T) {
	for _, key := range []string{names.AnnotationOperatorGroup, names.AnnotationOperatorNamespace} {
		w := newWorld(t, group("t1"), "t1")
		w.settle()
		recorded.Edit(w.Server, w.csv("t1"), func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Annotations[key] = "wrong" })
		require.Equal(t, append([]string{"remit: delete ClusterServiceVersion t1/op.v1"}, made("t1")...), append(w.settle(), w.settle()...))
	}
}

// Remit never changes a ClusterServiceVersion that it did not create as a copy, regardless of its labels.
func TestNeverChangesWhatItDidNotCreate(t *testing.T) {
	collision := "event: Warning CopyCollision on ClusterServiceVersion home/op.v1: not copied into these namespaces, because another ClusterServiceVersion there has the same name: t1"
	for name, edit := range map[string]func(*operatorsv1alpha1.ClusterServiceVersion){
		"live": func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Labels = nil },
		"labeled as the copy": func(c *operatorsv1alpha1.ClusterServiceVersion) {
			c.Labels = map[string]string{names.LabelCopiedFrom: "home"}
			c.Annotations = map[string]string{names.AnnotationOperatorGroup: "og", names.AnnotationOperatorNamespace: "home"}
		},
		"with the proof of another copy": func(c *operatorsv1alpha1.ClusterServiceVersion) {},
		"labeled as a copy of another source": func(c *operatorsv1alpha1.ClusterServiceVersion) {
			c.Labels = map[string]string{names.LabelCopiedFrom: "elsewhere"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("t1", "t2"), "t1", "t2")
			forged := original()
			w.Delete(binding("copies", ""))
			w.Put(binding("copies", "t2"))
			w.settle()
			w.Put(binding("copies", ""))
			forged.Labels, forged.Annotations = w.csv("t2").Labels, w.csv("t2").Annotations
			forged.Namespace, forged.Spec.DisplayName = "t1", "of the tenant"
			edit(forged)
			w.Put(forged)
			require.Equal(t, []string{collision}, w.settle())
			require.Empty(t, w.settle(), "reported once")
			w.Delete(original())
			require.Equal(t, []string{"remit: delete ClusterServiceVersion t2/op.v1"}, w.settle())
			require.Equal(t, "of the tenant", w.csv("t1").Spec.DisplayName)
		})
	}
}

// A copy whose label was removed is not a source, and is reported instead of being changed.
func TestACopyIsNeverASource(t *testing.T) {
	w := newWorld(t, group("t1"), "t1", "t2")
	w.settle()
	recorded.Edit(w.Server, w.csv("t1"), func(c *operatorsv1alpha1.ClusterServiceVersion) { delete(c.Labels, names.LabelCopiedFrom) })
	og := group("t2")
	og.Namespace = "t1"
	w.Put(og, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "acct"}})
	want, err := w.r.want(t.Context(), types.NamespacedName{Namespace: "t1", Name: "op.v1"})
	require.NoError(t, err)
	require.Nil(t, want.csv)
	require.Len(t, w.settle(), 1)
}

func TestDeletesACopyIfAPlanInstallsTheSameName(t *testing.T) {
	w := newWorld(t, group("t1"), "t1")
	w.settle()
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "install-x"}, Spec: operatorsv1alpha1.InstallPlanSpec{ClusterServiceVersionNames: []string{"op.v1"}}}
	plan.Status.Phase = operatorsv1alpha1.InstallPlanPhaseInstalling
	w.Put(plan)
	require.Equal(t, []string{"remit: delete ClusterServiceVersion t1/op.v1"}, w.settle())
	plan.Status.Phase = operatorsv1alpha1.InstallPlanPhaseComplete
	w.Put(plan)
	require.Equal(t, made("t1"), w.settle())
}

func TestConfirmsTheGroupBeforeAWrite(t *testing.T) {
	w := newWorld(t, group("t1"), "t1")
	w.Lag(group("t1"))
	og := group("t1")
	w.Get(og)
	og.Generation, og.Spec.ServiceAccountName = 2, "stranger"
	w.Put(og)
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: "op.v1"}})
	require.Error(t, err)
	require.Empty(t, w.Writes())

	w = newWorld(t, group("t1"), "t1")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "acct"}}
	w.Lag(account)
	w.Delete(account.DeepCopy())
	w.Put(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "acct", UID: "another"}})
	_, err = w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: "op.v1"}})
	require.ErrorContains(t, err, "its account has changed")
	require.Empty(t, w.Writes())
}

// A finalizer can delay the deletion of an OperatorGroup for any time. Meanwhile, its copies remain as they are.
func TestWritesNoCopiesWhileTheGroupIsBeingDeleted(t *testing.T) {
	deleted := func(w *world) {
		recorded.Edit(w.Server, group("t1", "t2"), func(og *operatorsv1.OperatorGroup) { og.Finalizers = []string{"test/hold"} })
		w.Delete(group("t1", "t2"))
	}
	w := newWorld(t, group("t1", "t2"), "t1")
	w.settle()
	deleted(w)
	w.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t2"}})
	require.Empty(t, w.settle())
	require.NotNil(t, w.csv("t1"))

	w = newWorld(t, group("t1", "t2"), "t1")
	w.Lag(group("t1", "t2"))
	deleted(w)
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: "op.v1"}})
	require.ErrorContains(t, err, "is being deleted")
	require.Empty(t, w.Writes())
}

// The copies that exist are OLM's business, too.
func TestCopiesOfANamespaceOfOLMAreLeftAlone(t *testing.T) {
	w := newWorld(t, group("t1"), "t1", "t2")
	w.settle()
	recorded.Edit(w.Server, group("t1"), func(og *operatorsv1.OperatorGroup) {
		og.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
		og.Spec.TargetNamespaces = []string{"t2"}
	})
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: "op.v1"}})
	require.NoError(t, err)
	require.Empty(t, w.Writes())
	require.NotNil(t, w.csv("t1"))
}

func TestCopiesNothingFromANamespaceThatTheAPIServerKnowsIsLeftToOLM(t *testing.T) {
	w := newWorld(t, group("t1"), "t1")
	w.Lag(group("t1"))
	recorded.Edit(w.Server, group("t1"), func(og *operatorsv1.OperatorGroup) {
		og.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	})
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: "op.v1"}})
	require.ErrorContains(t, err, "OLM v0 manages namespace")
	require.Empty(t, w.Writes())
}

func TestOLMConfigDisablesCopiesOfGroupsForAllNamespaces(t *testing.T) {
	config := &operatorsv1.OLMConfig{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: operatorsv1.OLMConfigSpec{Features: &operatorsv1.Features{DisableCopiedCSVs: ptr.To(true)}}}
	w := newWorld(t, group(), "t1", "t2")
	w.restart("t2")
	w.settle()
	w.Put(config)
	require.Equal(t, []string{"remit: delete ClusterServiceVersion t1/op.v1",
		"event: Warning DisabledCopiedCSVs on ClusterServiceVersion home/op.v1: CSV copying disabled for home/op.v1"}, w.settle())
	require.Empty(t, w.settle())
	require.NotNil(t, w.csv("t2"), "protected")

	listed := newWorld(t, group("t1"), "t1")
	listed.Put(config)
	require.Equal(t, made("t1"), listed.settle())
}

func TestConditionOfOLMConfig(t *testing.T) {
	for _, row := range []struct {
		disabled bool
		state    progress
		want     string
	}{
		{false, progress{}, "False CopiedCSVsEnabled Copied CSVs are enabled and present across the cluster"},
		{false, progress{missing: 2}, "False CopiedCSVsEnabled Copied CSVs are enabled and at least one copied CSVs is missing"},
		{true, progress{surplus: 3}, "False CopiedCSVsDisabled Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator installed in AllNamespace mode"},
		{true, progress{}, "True CopiedCSVsDisabled Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode"},
	} {
		config := &operatorsv1.OLMConfig{Spec: operatorsv1.OLMConfigSpec{Features: &operatorsv1.Features{DisableCopiedCSVs: &row.disabled}}}
		c := condition(config, row.state)
		require.Equal(t, row.want, strings.Join([]string{string(c.Status), c.Reason, c.Message}, " "))
	}
}

func TestIsSettled(t *testing.T) {
	copyWith := func(version, hash string, writers ...string) *metav1.PartialObjectMetadata {
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version, Annotations: map[string]string{names.AnnotationCopyHash: hash}}}
		for _, writer := range writers {
			manager, sub, _ := strings.Cut(writer, "/")
			m.ManagedFields = append(m.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Subresource: sub})
		}
		return m
	}
	for name, row := range map[string]struct {
		found *metav1.PartialObjectMetadata
		seen  string
		want  bool
	}{
		"as it was written":                            {copyWith("7", "h"), "7", true},
		"changed after it was written":                 {copyWith("8", "h"), "7", false},
		"the cache is older than the write":            {copyWith("6", "old"), "7", true},
		"the source has changed":                       {copyWith("7", "old"), "7", false},
		"after a restart":                              {copyWith("7", "h", "remit-olm", "remit-olm/status"), "", true},
		"after a restart, without its status":          {copyWith("7", "h", "remit-olm"), "", false},
		"after a restart, written by another client":   {copyWith("7", "h", "remit-olm", "remit-olm/status", "kubectl-edit/status"), "", false},
		"after a restart, copied from an older source": {copyWith("7", "old", "remit-olm", "remit-olm/status"), "", false},
		"after a restart, the spec was changed":        {copyWith("7", "h", "remit-olm", "remit-olm/status", "kubectl-edit"), "", false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, isSettled(row.found, "h", row.seen)) })
	}
}

// Namespaces whose quota or policy refuses the copy do not prevent copies in other namespaces, however many refuse it.
func TestRefusalsInSomeNamespacesDoNotAffectOthers(t *testing.T) {
	var names []string
	refused := apierrors.NewForbidden(operatorsv1alpha1.Resource("clusterserviceversions"), "op.v1", errors.New("exceeded quota"))
	for i := range maxCopies + 10 {
		names = append(names, fmt.Sprintf("a%03d", i))
	}
	w := newWorld(t, group(), append(names, "z1", "z2")...)
	for _, namespace := range names {
		w.Refuse("remit: create ClusterServiceVersion "+namespace+"/op.v1", refused)
	}
	passes := 0
	for ; w.csv("z2") == nil; passes++ {
		require.Less(t, passes, 3)
		_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: "op.v1"}})
		require.ErrorContains(t, err, "exceeded quota", "an error is retried with a growing delay")
		require.LessOrEqual(t, len(w.Writes()), 2*maxCopies)
	}
	require.NotNil(t, w.csv("z1"))
}

func TestErrorsOfTheAPIServerEndAPass(t *testing.T) {
	w := newWorld(t, group(), "t1", "t2", "t3", "t4", "t5")
	for i := range 5 {
		w.Refuse(fmt.Sprintf("remit: create ClusterServiceVersion t%d/op.v1", i+1), apierrors.NewServiceUnavailable("down"))
	}
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "home", Name: "op.v1"}})
	require.ErrorContains(t, err, "down")
	require.Len(t, w.Writes(), maxErrors)
}

// The admission policy remit-self-copies does not let Remit delete a copy that has an owner reference. Any user who may change
// the copy can add one.
func TestACopyWithAnOwnerIsNotDeleted(t *testing.T) {
	w := newWorld(t, group("t1", "t2"), "t1", "t2")
	w.settle()
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
	recorded.Edit(w.Server, w.csv("t1"), func(c *operatorsv1alpha1.ClusterServiceVersion) { c.OwnerReferences = owners })
	w.Delete(original())
	require.Equal(t, []string{"remit: delete ClusterServiceVersion t2/op.v1"}, w.settle())
	recorded.Edit(w.Server, w.csv("t1"), func(c *operatorsv1alpha1.ClusterServiceVersion) { c.OwnerReferences = nil })
	require.Equal(t, []string{"remit: delete ClusterServiceVersion t1/op.v1"}, w.settle())
}

// Otherwise, each of many tenants with the same operator would wake all others.
func TestNamesakesWakeOnlySourcesThatAreCopied(t *testing.T) {
	w := newWorld(t, group("home"), "t1")
	namesake := original()
	namesake.Namespace = "t1"
	require.Empty(t, w.settle())
	require.Empty(t, w.r.namesakes(t.Context(), namesake))
	recorded.Edit(w.Server, group(), func(og *operatorsv1.OperatorGroup) { og.Spec.TargetNamespaces = []string{"home", "t1"} })
	w.settle()
	require.Len(t, w.r.namesakes(t.Context(), namesake), 1)
	recorded.Edit(w.Server, group(), func(og *operatorsv1.OperatorGroup) { og.Spec.TargetNamespaces = []string{"home"} })
	w.settle()
	require.Empty(t, w.r.namesakes(t.Context(), namesake))
}

// A tenant could fill the memory with sources that no longer exist.
func TestDeletedSourcesAreForgotten(t *testing.T) {
	for name, left := range map[string]bool{"deleted": false, "deleted while OLM v0 manages the namespace": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("t1"), "t1")
			w.settle()
			key := types.NamespacedName{Namespace: "home", Name: "op.v1"}
			require.True(t, w.r.reaching.Get(key))
			if left {
				recorded.Edit(w.Server, group(), func(og *operatorsv1.OperatorGroup) {
					og.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
				})
			}
			w.Delete(original())
			w.settle()
			require.False(t, w.r.reaching.Get(key))
			w.r.reported.Each(func(key types.NamespacedName, _ reported) { t.Errorf("%s is not forgotten", key) })
		})
	}
}

// A tenant's plan can name any number of ClusterServiceVersions, and change often.
func TestAPlanWakesNamesakesIfItInstallsAnotherName(t *testing.T) {
	w := newWorld(t, group("t1"), "t1")
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "p"}}
	plan.Spec.ClusterServiceVersionNames = []string{"other.v1", "op.v1"}
	source := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "home", Name: "op.v1"}}}
	require.Empty(t, w.r.planned(t.Context(), plan), "the source was not reconciled yet")
	require.Equal(t, made("t1"), w.settle())
	require.Equal(t, source, w.r.planned(t.Context(), plan))
	plan.Namespace = "home"
	require.Empty(t, w.r.planned(t.Context(), plan))
	plan.Namespace, plan.Spec.ClusterServiceVersionNames = "t1", append(slices.Repeat([]string{"x"}, MaxPlanned), "op.v1")
	require.Empty(t, w.r.planned(t.Context(), plan))
	w.Put(plan)
	require.Empty(t, w.settle())

	for name, row := range map[string]struct {
		edit func(p *operatorsv1alpha1.InstallPlan)
		want bool
	}{
		"an annotation": {func(p *operatorsv1alpha1.InstallPlan) { p.Annotations = map[string]string{"a": "b"} }, false},
		"a step":        {func(p *operatorsv1alpha1.InstallPlan) { p.Status.Phase = operatorsv1alpha1.InstallPlanPhaseInstalling }, false},
		"its end":       {func(p *operatorsv1alpha1.InstallPlan) { p.Status.Phase = operatorsv1alpha1.InstallPlanPhaseComplete }, true},
		"a name":        {func(p *operatorsv1alpha1.InstallPlan) { p.Spec.ClusterServiceVersionNames = []string{"y"} }, true},
	} {
		after := plan.DeepCopy()
		row.edit(after)
		require.Equal(t, row.want, isPlanning(event.UpdateEvent{ObjectOld: plan, ObjectNew: after}), name)
	}
}

// Rendered as maps, the copy took 50 MiB, and 53 more for each namespace.
func TestCopiesAreNotRenderedAsMaps(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a"}}
	d := operatorsv1alpha1.StrategyDeploymentSpec{}
	d.Spec.Template.OwnerReferences = make([]metav1.OwnerReference, 30_000)
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{d}
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	c, err := contentOf(csv, "og")
	require.NoError(t, err)
	for range 10 {
		specs := c.copyIn("b", "a").Spec.InstallStrategy.StrategySpec.DeploymentSpecs
		require.Len(t, specs, 1)
		specs[0].Name = "changed"
	}
	require.Empty(t, csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name, "the cache is only read")
	runtime.ReadMemStats(&end)
	require.Less(t, end.TotalAlloc-start.TotalAlloc, uint64(60<<20), "the encoded copy has 1.4 MiB, and each copy takes 2.3 MiB")
}

// Copies are kept while a ClusterRole of the account has too many rules to be kept.
func TestCopiesAreKeptWhileAClusterRoleIsNotKept(t *testing.T) {
	w := newWorld(t, group(), "t1", "t2")
	require.Equal(t, made("t1", "t2"), w.settle())
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "copies"}}
	w.Get(role)
	kept := role.Rules
	for i := range rbac.MaxRoleRules + 1 {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{fmt.Sprint("r", i)}})
	}
	role.Rules = rbac.KeptRules(role.Rules)
	w.Put(role)
	w.Delete(binding("copies", ""))
	w.Put(binding("copies", "t1"))
	require.Equal(t, []string{"remit: delete ClusterServiceVersion t2/op.v1"}, w.settle(), "the account has no ClusterRole there")
	role.Rules = kept
	w.Put(role)
	require.Empty(t, w.settle())
}
