package installplan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// run is the state that the phases of one reconcile share.
type run struct {
	reconciler *Reconciler
	// began is the time at which this run began.
	began time.Time
	// saved is the plan that the API server stores; plan includes the changes of this run.
	saved, plan *operatorsv1alpha1.InstallPlan

	content resolver.Plan
	account scoped.Account
	group   *operatorsv1.OperatorGroup
	targets []string
	steps   []step.Step
	// findings lists the known obstacles to the steps. unpublished is the error returned by writing the report, if a retry
	// may succeed. emptying writes a report without findings while the plan is executed.
	findings    preflight.Report
	unpublished error
	emptying    errgroup.Group
	// unserved means that permissions were not checked because the cluster does not serve a kind of the plan.
	unserved bool
	// queued means that the plan waits until other large plans have been executed.
	queued bool
	// tried means that the objects themselves were sent to the API server as a dry run.
	tried bool
	// recheckAt is the time at which existing objects should be read again if they are the only obstacle.
	recheckAt time.Time

	executor *execute.Executor
	states   []execute.State
	// crds contains the CustomResourceDefinitions of the cluster. It is nil until it is needed.
	crds *apiextensionsv1.CustomResourceDefinitionList
	// deployments contains the live Deployments of the plan's ClusterServiceVersions before the first write, keyed by
	// apply.Describe. The value is nil if the Deployment does not exist.
	deployments map[string]*unstructured.Unstructured
	// executed contains the stepIDs of the steps that other plans in the namespace have executed. It is nil until it is
	// needed.
	executed map[string]bool
	// done lists the steps that this run has executed, in order. wrote is true if one of them changed an object.
	done  []written
	wrote bool
}

// invalid is an error that no retry can resolve, so the plan fails.
type invalid struct {
	reason operatorsv1alpha1.InstallPlanConditionReason
	err    error
}

func (e *invalid) Error() string { return e.err.Error() }
func (e *invalid) Unwrap() error { return e.err }

// decode determines which content the plan installs. A plan whose name does not commit to that content fails.
func decode(ctx context.Context, s *run) (outcome, error) {
	content, err := resolver.Decode(s.plan.Namespace, s.plan.Name, s.plan.Annotations[names.AnnotationPlan])
	if err != nil {
		return outcome{}, &invalid{operatorsv1alpha1.InstallPlanReasonPlanUnknown,
			fmt.Errorf("InstallPlan %q is not executed: %w", s.plan.Name, err)}
	}
	s.content = content
	s.plan.Status.CatalogSources = catalogs(content)
	return failIfSuperseded(ctx, s)
}

// failIfSuperseded fails a plan for which a newer plan exists. It is called at the start and again right before the
// first write.
func failIfSuperseded(ctx context.Context, s *run) (outcome, error) {
	newer, err := s.newerPlan(ctx)
	if err != nil {
		return outcome{}, err
	}
	if newer != "" {
		return outcome{}, &invalid{names.ReasonSuperseded,
			fmt.Errorf("InstallPlan %q superseded this InstallPlan before execution", newer)}
	}
	return proceed(), nil
}

// newerPlan returns the name of a newer plan for one of the plan's Subscriptions, or "" if there is none. Only the
// newest plan is executed, so that an old plan never installs a version that the catalog has since replaced.
func (s *run) newerPlan(ctx context.Context) (string, error) {
	list := &operatorsv1alpha1.InstallPlanList{}
	if err := s.reconciler.Client.List(ctx, list, client.InNamespace(s.plan.Namespace)); err != nil {
		return "", fmt.Errorf("list InstallPlans: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if resolver.CompareAge(other, s.plan) <= 0 || other.UID == s.plan.UID {
			continue
		}
		text := other.Annotations[names.AnnotationPlan]
		if !s.content.MayShareSubscription(text) {
			continue
		}
		content, err := resolver.Decode(other.Namespace, other.Name, text)
		if err == nil && content.SharesSubscription(s.content) {
			return other.Name, nil
		}
	}
	return "", nil
}

func catalogs(p resolver.Plan) []string {
	var out []string
	for _, pin := range p.Pins {
		if !slices.Contains(out, pin.Catalog) {
			out = append(out, pin.Catalog)
		}
	}
	return out
}

// awaitApproval sets the plan's phase to RequiresApproval if its approval is pending, and to Installing otherwise. An
// approval applies to the plan's name, and therefore to its content.
func awaitApproval(_ context.Context, s *run) (outcome, error) {
	s.plan.Status.Phase = operatorsv1alpha1.InstallPlanPhaseInstalling
	if !s.plan.Spec.Approved && s.plan.Spec.Approval == operatorsv1alpha1.ApprovalManual {
		s.plan.Status.Phase = operatorsv1alpha1.InstallPlanPhaseRequiresApproval
	}
	return proceed(), nil
}

// findAccount looks up the account that bounds the plan. It can use the cache, because openClients reads the account
// again, live, before anything is sent. The status names the account while the plan waits for permissions or an approval.
func findAccount(ctx context.Context, s *run) (outcome, error) {
	account, og, err := s.reconciler.Default.Lookup(s.reconciler.Client).Account(ctx, s.plan.Namespace)
	if scoped.ReasonOf(err) == scoped.NoOperatorGroup && !s.reports(err) {
		// The cache may be outdated, and the status of a plan that OLM manages must not change.
		if left, err := s.reconciler.Default.Lookup(s.reconciler.Live).LeavesToOLM(ctx, s.plan.Namespace); err != nil {
			return outcome{}, err
		} else if left {
			return outcome{}, errLeftToOLM
		}
	}
	if err = cmp.Or(err, scoped.CheckNotDeleted(og)); err != nil {
		return waitForAccount(err)
	}
	s.account, s.group = account, og
	s.plan.Status.AttenuatedServiceAccountRef = &corev1.ObjectReference{
		Kind: "ServiceAccount", APIVersion: "v1", Namespace: account.Namespace, Name: account.Name, UID: account.UID,
	}
	filter := preflight.NamespaceFilter{RBAC: s.reconciler.RBAC, Ask: s.reconciler.confirmer.Ask}
	if s.targets, err = s.reconciler.Default.Lookup(s.reconciler.Client).Targets(ctx, og, filter); err != nil {
		return waitForAccount(err)
	}
	if len(s.targets) > 0 {
		return proceed(), nil
	}
	none := message.Line(scoped.NoTargets(og, account))
	if !s.reconciler.RBAC.Readable() {
		return outcome{}, &refused{reasonCheckFailed, none} // RBAC cannot be read, so no watch reports a grant
	}
	return wait(reasonCheckFailed, none), nil
}

// reports reports whether the saved status shows that the plan waits for the reason of err.
func (s *run) reports(err error) bool {
	was := s.saved.Status
	return was.Phase == s.plan.Status.Phase && was.Message == status.Text(message.Of(err))
}

// waitForAccount makes the run wait if err is a problem with the account, because watches on OperatorGroups,
// ServiceAccounts and RBAC report when the problem is resolved. It returns all other errors.
func waitForAccount(err error) (outcome, error) {
	if scoped.ReasonOf(err) != "" {
		return wait(reasonCheckFailed, message.Of(err)), nil
	}
	return outcome{}, err
}

// makeSteps recomputes the plan's steps from the pinned content and writes them to the status.
func makeSteps(ctx context.Context, s *run) (outcome, error) {
	r := s.reconciler
	in := resolver.Input{
		Namespace:              s.plan.Namespace,
		GlobalCatalogNamespace: r.GlobalCatalogNamespace,
		Catalogs:               r.Catalogs,
		Reading:                &resolver.Reading{},
		Account:                s.account,
		Group:                  s.group.Name,
		Targets:                s.targets,
		RBAC:                   r.RBAC,
		MaxCost:                resolver.OrdinaryCost,
	}
	steps, _, err := resolver.StepsOf(ctx, in, s.content)
	if resolver.IsCostly(err) {
		if !r.large.begin(s.key()) {
			return s.awaitTurn(), nil
		}
		in.MaxCost, in.Interrupt = resolver.MaxPlanCost, s.checkTurn
		steps, _, err = resolver.StepsOf(ctx, in, s.content)
	}
	s.showLookups(err)
	switch {
	case errors.Is(err, errTurn):
		return s.awaitTurn(), nil
	case kit.Is[*resolver.ReadError](err):
		return outcome{}, &refused{names.ReasonBundleContentUnavailable, message.Of(err)}
	case errors.Is(err, resolver.ErrContent):
		return wait(names.ReasonBundleContentUnavailable, message.Of(err)), nil
	case err != nil:
		s.plan.Status.Phase = operatorsv1alpha1.InstallPlanPhaseInstalling
		return outcome{}, &invalid{reasonFailed, describeInvalid(err)}
	}
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: s.plan.Namespace}, namespace); err != nil {
		return outcome{}, fmt.Errorf("get Namespace %q: %w", s.plan.Namespace, err)
	}
	for i := range steps {
		steps[i].Owner.Proofs, steps[i].Owner.Since = r.Proofs, namespace.CreationTimestamp.Time
	}
	if err := build.DropAggregated(steps, r.RBAC.Untracked().ClusterRoles); err != nil {
		return outcome{}, err
	}
	s.steps = steps
	if err := s.configure(ctx); err != nil {
		if kit.Is[*unrenderable](err) {
			return outcome{}, &refused{reasonCheckFailed, message.Of(err)} // no watch reports changes to the Subscription
		}
		return outcome{}, err
	}
	if err := errors.Join(s.show(steps), s.showDependencies(ctx)); err != nil {
		return outcome{}, err
	}
	return proceed(), s.announceWebhooks()
}
