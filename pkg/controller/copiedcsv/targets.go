package copiedcsv

import (
	"context"
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// wanted describes the copies that a ClusterServiceVersion should have.
type wanted struct {
	key types.NamespacedName
	// csv is nil if the ClusterServiceVersion does not exist or is being deleted.
	csv     *operatorsv1alpha1.ClusterServiceVersion
	group   *operatorsv1.OperatorGroup
	account scoped.Account
	content content
	// namespaces are those that should have a copy, sorted.
	namespaces []string
	// global is true if the OperatorGroup targets all namespaces, and disabled if there are no copies for that reason.
	global, disabled bool
	// undecided is true if existing copies are to be kept, but no copies are to be written, because the phase is not known yet
	// or the cache contains only a part of the ClusterServiceVersion.
	undecided bool
	// unknown are the namespaces, sorted, of which only the API server knows whether the account may create copies. Existing copies are
	// kept.
	unknown []string
}

// isUnknown reports whether only the API server knows whether a namespace should have a copy.
func (w wanted) isUnknown(namespace string) bool {
	_, found := slices.BinarySearch(w.unknown, namespace)
	return found
}

// want determines the copies that should exist, according to the cache.
func (r *Reconciler) want(ctx context.Context, key types.NamespacedName) (wanted, error) {
	w := wanted{key: key}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	switch err := r.Client.Get(ctx, key, csv, client.UnsafeDisableDeepCopy); { // only read from here on
	case apierrors.IsNotFound(err):
		return w, nil
	case err != nil:
		return w, err
	case csv.DeletionTimestamp != nil || r.isOwnCopy(csv):
		return w, nil
	}
	w.csv = csv
	if csv.Status.Phase == operatorsv1alpha1.CSVPhaseNone || budget.Refused(csv) != nil {
		w.undecided = true
		return w, nil
	}
	if csv.IsUncopiable() {
		return w, nil
	}
	if err := r.gatherTargets(ctx, &w); err != nil || len(w.namespaces) == 0 {
		return w, err
	}
	var err error
	w.content, err = contentOf(csv, w.group.Name)
	return w, err
}

// gatherTargets determines the namespaces. If there is a problem that only users can resolve, there are none.
func (r *Reconciler) gatherTargets(ctx context.Context, w *wanted) error {
	lookup := r.Default.Lookup(r.Client)
	var err error
	if w.account, w.group, err = lookup.Account(ctx, w.key.Namespace); err != nil {
		return withoutProblems(err)
	}
	targets, err := lookup.Targets(ctx, w.group, preflight.NamespaceFilter{RBAC: r.RBAC, Ask: r.ask})
	if err != nil {
		w.undecided = scoped.ReasonOf(err) == scoped.AccountHoldsTooMuch // it may still be allowed to create them
		return withoutProblems(err)
	}
	if slices.Equal(targets, []string{w.key.Namespace}) {
		r.reaching.Delete(w.key)
		return nil // as for most operators, whose reconciles must not take longer with each namespace of the cluster
	}
	r.reaching.Set(w.key, true) // before namesakes are looked up in the cache, so that none is missed
	if targets, err = r.existing(ctx, w, targets); err != nil {
		return err
	}
	subject := rbac.SubjectOf(w.account.Identity())
	if w.namespaces, err = r.RBAC.Covered(subject, targets, createRules); err == nil {
		w.unknown, err = r.RBAC.NotKept(subject, slices.DeleteFunc(targets, func(name string) bool { return isWanted(*w, name) }))
	}
	return withoutProblems(preflight.AsAccountError(w.account.Identity(), err))
}

// withoutProblems returns nil for a problem of the OperatorGroup or its account, which their status reports.
func withoutProblems(err error) error {
	if scoped.ReasonOf(err) != "" {
		return nil
	}
	return err
}

// createRules returns the permission that the account must have in a namespace before Remit writes a copy there: to
// create the copy itself.
func createRules(string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{operatorsv1alpha1.SchemeGroupVersion.Group}, Resources: []string{"clusterserviceversions"}, Verbs: []string{"create"},
	}}
}

// existing returns the targets that exist, except the OperatorGroup's own namespace and those in which a plan installs a
// ClusterServiceVersion with the same name. If OLMConfig disables the copies of groups that target all namespaces, only
// protected namespaces remain.
func (r *Reconciler) existing(ctx context.Context, w *wanted, targets []string) ([]string, error) {
	w.global = slices.Equal(targets, []string{scoped.AllNamespaces})
	if w.global {
		config, err := r.config(ctx)
		if err != nil {
			return nil, err
		}
		w.disabled = !config.CopiedCSVsAreEnabled()
	}
	installing, err := r.installing(ctx, w.key.Name)
	if err != nil {
		return nil, err
	}
	list := &corev1.NamespaceList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Namespaces: %w", err)
	}
	var out []string
	for i := range list.Items {
		ns := &list.Items[i]
		isTarget := w.global || slices.Contains(targets, ns.Name)
		isAllowed := !installing[ns.Name] && (!w.disabled || slices.Contains(r.Protected, ns.Name))
		if ns.DeletionTimestamp == nil && ns.Name != w.key.Namespace && isTarget && isAllowed {
			out = append(out, ns.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// installing returns the namespaces with an InstallPlan that is to create a ClusterServiceVersion with this name. Remit
// keeps no copy with that name there, because the plan would not overwrite it.
func (r *Reconciler) installing(ctx context.Context, name string) (map[string]bool, error) {
	list := &operatorsv1alpha1.InstallPlanList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list InstallPlans: %w", err)
	}
	out := map[string]bool{}
	for i := range list.Items {
		if plan := &list.Items[i]; slices.Contains(toInstall(plan), name) {
			out[plan.Namespace] = true
		}
	}
	return out, nil
}

// MaxPlanned is the maximum number of an InstallPlan's names that are considered. Caches keep no others.
const MaxPlanned = 1000

// toInstall returns the names of the ClusterServiceVersions that a plan still has to create.
func toInstall(plan *operatorsv1alpha1.InstallPlan) []string {
	if plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseComplete {
		return nil
	}
	return plan.Spec.ClusterServiceVersionNames[:min(len(plan.Spec.ClusterServiceVersionNames), MaxPlanned)]
}

// config returns the OLMConfig, or nil if there is none.
func (r *Reconciler) config(ctx context.Context) (*operatorsv1.OLMConfig, error) {
	config := &operatorsv1.OLMConfig{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: configName}, config)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get OLMConfig %s: %w", configName, err)
	}
	return config, nil
}
