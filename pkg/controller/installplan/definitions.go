package installplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/crd"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/pkg/step/existing"
)

// usersPage is the number of objects in one page when Remit determines who uses a CustomResourceDefinition. Only metadata is
// read.
const usersPage = 50

// maxDeployments is the number of Deployments of a namespace whose owners are examined.
const maxDeployments = 5_000

// denial is the reason why the installation's CRD account must not change a CustomResourceDefinition.
type denial struct {
	// resourceVersion is the version of the live definition; account is the plan's account.
	resourceVersion string
	account         scoped.Account
	why             string
	// until is the time at which a cached denial expires, and wait its duration. It grows while the reason stays the same.
	until time.Time
	wait  time.Duration
}

// chooseWriters determines, immediately before the writes, which account changes each existing CustomResourceDefinition of
// the plan, if the installation has a CRD account. That account creates definitions for accounts that may not. It changes
// one only if nobody else uses it: otherwise, one tenant's upgrade would change the objects of others (docs/adr/0068). The
// plan's account changes a definition if it may patch it. Nothing is written if the spec does not change.
func chooseWriters(ctx context.Context, s *run) (outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, existing.ReadTimeout, existing.ErrSlow)
	defer cancel()
	for i := range s.states {
		state := &s.states[i]
		if !state.Step.IsCRD() || !s.usesCRDAccount(state.Step) || state.Problem != nil || state.Live == nil || !state.Step.Owner.Owns(state.Live) {
			continue
		}
		need := patchNeed(state.Step)
		report := preflight.Examine(s.account.Identity(), []preflight.Need{need}, s.permissionsIn)
		if report.Empty() {
			state.ByAccount = true
			continue
		}
		if !s.executor.Alters(ctx, *state) {
			state.Kept = true
			continue
		}
		denied, err := s.denied(ctx, *state)
		switch {
		case err != nil:
			return waitForAccount(err)
		case denied == "":
			continue
		case s.reconciler.confirmer.Allows(ctx, rbac.SubjectOf(s.account.Identity()), need.Namespace, need.Rules):
			state.ByAccount = true // RBAC is not the only authorizer
			continue
		}
		state.Kept = true // the plan waits, so nothing is written
		s.findings.Findings = append(s.findings.Findings, report.Findings...)
		s.refuse(state.Step, s.explainDenial(*state, denied))
		s.recheckAt = s.reconciler.memory.Get(s.key()).schemas[state.Live.GetName()].denial.until
	}
	return proceed(), nil
}

// patchNeed returns the permission to change an existing CustomResourceDefinition.
func patchNeed(st step.Step) preflight.Need {
	return hooks.Request(st.Object, "change CustomResourceDefinition "+st.Object.GetName()+", which others use", "patch")
}

// explainDenial describes why the account needs to patch a CustomResourceDefinition. It names no object of others.
func (s *run) explainDenial(state execute.State, why string) error {
	changes := "changes it"
	live, err := crd.Decode(state.Live)
	if err == nil {
		if want, err := crd.Decode(state.Step.Object); err == nil {
			if all := crd.Alterations(live, want); len(all) > 0 {
				changes = listAlterations(all)
			}
		}
	}
	return fmt.Errorf("the new version of the definition %s, and %s. The installation's CRD account changes a definition only if nobody else uses it: "+
		"grant ServiceAccount %s permission to patch it, or let an administrator apply the new version", changes, why, s.account.Key())
}

// maxAlterations is the number of alterations that a message lists.
const maxAlterations = 5

func listAlterations(alterations []string) string {
	if more := len(alterations) - maxAlterations; more > 0 {
		alterations = append(slices.Clone(alterations[:maxAlterations]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(alterations, ", ")
}

// denied returns the reason why the CRD account must not change a CustomResourceDefinition, or "". A reason is cached for a
// while, because other tenants determine how often the plan is woken and how many objects there are.
func (s *run) denied(ctx context.Context, state execute.State) (string, error) {
	clock := s.reconciler.Clock
	begun, version := clock.Now(), state.Live.GetResourceVersion()
	known := s.reconciler.memory.Get(s.key()).schemas[state.Live.GetName()].denial
	if known.why != "" && known.resourceVersion == version && known.account == s.account && begun.Before(known.until) {
		return known.why, nil
	}
	live, err := crd.Decode(state.Live)
	if err != nil {
		return "", err
	}
	users := users{run: s, list: preflight.List(live), known: map[string]bool{}, updates: map[string]bool{}, deployed: map[string]map[types.UID]bool{}}
	why, err := users.others(ctx, live, s.executor.Reader(state.Step))
	if err != nil {
		return "", err
	}
	ended := clock.Now()
	s.reconciler.memory.changeSchema(s.key(), live.Name, func(is *compared) {
		wait := minRecheck
		if why == is.denial.why {
			wait = min(max(2*is.denial.wait, minRecheck), maxRecheck)
		}
		wait = max(wait, readShare*ended.Sub(begun))
		is.denial = denial{resourceVersion: version, account: s.account, why: why, until: ended.Add(wait), wait: wait}
	})
	return why, nil
}

// users finds out who uses a CustomResourceDefinition. The maps cache the answers for namespaces.
type users struct {
	*run
	// list contains the rules that allow listing the objects.
	list           []rbacv1.PolicyRule
	known, updates map[string]bool
	// deployed contains the owners of the Deployments of a namespace, or nil if all ClusterServiceVersions count as installed.
	deployed map[string]map[types.UID]bool
}

// others describes who else uses a CustomResourceDefinition, or returns "": operators of other accounts that own or require it,
// and objects that the plan's account is not responsible for.
func (u *users) others(ctx context.Context, live *apiextensionsv1.CustomResourceDefinition, reader existing.Reader) (string, error) {
	csvs := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := u.reconciler.Client.List(ctx, csvs, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list ClusterServiceVersions: %w", err)
	}
	for i := range csvs.Items {
		csv := &csvs.Items[i]
		if _, copied := csv.Labels[names.LabelCopiedFrom]; copied || !uses(csv, live.Name) {
			continue
		}
		mine, err := u.isOwn(ctx, csv.Namespace)
		if err != nil {
			return "", err
		}
		if mine {
			continue
		}
		installed, err := u.isInstalled(ctx, csv)
		if err != nil {
			return "", err
		}
		if installed {
			return "operators in other namespaces use it", nil
		}
	}
	return u.othersObjects(ctx, live, reader)
}

// isInstalled reports whether a ClusterServiceVersion has a Deployment. Otherwise, a user who may only write ClusterServiceVersions
// could prevent the upgrades of others. In a namespace with very many Deployments, every version counts as installed.
func (u *users) isInstalled(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) (bool, error) {
	deployed, known := u.deployed[csv.Namespace]
	if !known {
		list := &appsv1.DeploymentList{}
		if err := u.reconciler.Client.List(ctx, list, client.InNamespace(csv.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("list Deployments in namespace %q: %w", csv.Namespace, err)
		}
		deployed = ownersOf(list.Items)
		u.deployed[csv.Namespace] = deployed
	}
	return deployed == nil || deployed[csv.UID], nil
}

// uses reports whether a ClusterServiceVersion owns or requires a CustomResourceDefinition.
func uses(csv *operatorsv1alpha1.ClusterServiceVersion, name string) bool {
	is := func(d operatorsv1alpha1.CRDDescription) bool { return d.Name == name }
	all := csv.Spec.CustomResourceDefinitions
	return slices.ContainsFunc(all.Owned, is) || slices.ContainsFunc(all.Required, is)
}

// ownersOf returns the UIDs of all owners, or nil if there are more than maxDeployments.
func ownersOf(deployments []appsv1.Deployment) map[types.UID]bool {
	if len(deployments) > maxDeployments {
		return nil
	}
	out := map[types.UID]bool{}
	for i := range deployments {
		for _, ref := range deployments[i].OwnerReferences {
			out[ref.UID] = true
		}
	}
	return out
}

// othersObjects reads the metadata of the objects, page by page, until it finds one of another owner.
func (u *users) othersObjects(ctx context.Context, live *apiextensionsv1.CustomResourceDefinition, reader existing.Reader) (string, error) {
	i := slices.IndexFunc(live.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
	if i < 0 {
		return "its objects cannot be read, because it serves no version", nil
	}
	gvk, isServed, err := crd.KindOf(reader.RESTMapper(), live, live.Spec.Versions[i].Name)
	switch {
	case err != nil:
		return "", err
	case !isServed:
		return "its objects cannot be read, because its kind is not served, or another definition had it", nil
	}
	return u.othersOf(ctx, live, reader, gvk)
}

func (u *users) othersOf(ctx context.Context, live *apiextensionsv1.CustomResourceDefinition, reader existing.Reader, gvk schema.GroupVersionKind) (string, error) {
	for read, page := 0, ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		switch err := reader.List(ctx, list, client.Limit(usersPage), client.Continue(page)); {
		case apierrors.IsForbidden(err):
			return "the installation's CRD account is not allowed to list its objects", nil
		case meta.IsNoMatchError(err):
			return "its objects cannot be read, because it is not established", nil
		case err != nil && errors.Is(context.Cause(ctx), existing.ErrSlow):
			return fmt.Sprintf("its objects could not be read within %s", existing.ReadTimeout), nil
		case err != nil:
			return "", fmt.Errorf("list the objects of CustomResourceDefinition %s: %w", live.Name, err)
		}
		for n := range list.Items {
			mine, err := u.mayChange(ctx, list.Items[n].Namespace)
			if err != nil {
				return "", err
			}
			if !mine {
				return "objects that are not in namespaces of this account exist", nil
			}
		}
		read, page = read+len(list.Items), list.GetContinue()
		switch {
		case page == "":
			return "", nil
		case read >= existing.MaxObjects:
			return fmt.Sprintf("it has more than %d objects", existing.MaxObjects), nil
		}
	}
}

// isOwn reports whether the account of a namespace's OperatorGroup is the plan's account.
func (u *users) isOwn(ctx context.Context, namespace string) (bool, error) {
	if namespace == u.plan.Namespace {
		return true, nil
	}
	if own, known := u.known[namespace]; known {
		return own, nil
	}
	account, _, err := u.reconciler.Default.Lookup(u.reconciler.Client).Account(ctx, namespace)
	if err != nil && scoped.ReasonOf(err) == "" {
		return false, err
	}
	u.known[namespace] = err == nil && account == u.account
	return u.known[namespace], nil
}

// mayChange reports whether the objects of a namespace, or cluster-scoped objects for "", are the account's: the namespace
// is its own, or the OperatorGroup selects it and RBAC allows the account to update the objects there anyway.
func (u *users) mayChange(ctx context.Context, namespace string) (bool, error) {
	if namespace != rbac.ClusterScope {
		if own, err := u.isOwn(ctx, namespace); own || err != nil {
			return own, err
		}
	}
	may, known := u.updates[namespace]
	if !known {
		update := slices.Clone(u.list)
		for i := range update {
			update[i].Verbs = []string{"update"}
		}
		selected := slices.Contains(u.targets, rbac.ClusterScope) || slices.Contains(u.targets, namespace)
		may = selected && u.permissionsIn(namespace).Set().Covers(update)
		u.updates[namespace] = may
	}
	return may, nil
}
