package installplan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/warning"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// openClients reads the OperatorGroup again, live, and creates the clients for the writes. Before this, no request is sent as
// the account. If a token is refused although the cache shows the enrollment, openClients returns an error that is
// retried, because the API server's own cache may briefly lag behind.
func openClients(ctx context.Context, s *run) (outcome, error) {
	r := s.reconciler
	var current errgroup.Group
	current.Go(func() error { return s.checkCurrent(ctx) })
	group, err := r.Default.Lookup(r.Live).OperatorGroup(ctx, s.plan.Namespace)
	if err := current.Wait(); err != nil {
		return outcome{}, err
	}
	if scoped.CheckNotLeft(group) != nil {
		return outcome{}, errStale
	}
	if err != nil {
		return waitForAccount(err)
	}
	// The cached ServiceAccount is sufficient: its token is requested for its UID, so if the ServiceAccount was deleted or
	// recreated, the API server rejects the request, and the earlier token as soon as it forgets that the token was valid (10 s).
	if err := scoped.CheckNotDeleted(group); err != nil {
		return waitForAccount(err)
	}
	account, err := r.Default.Lookup(r.Client).AccountOf(ctx, group)
	if err != nil {
		return waitForAccount(err)
	}
	if account != s.account {
		return outcome{}, fmt.Errorf("the account of namespace %q changed from %s to %s", s.plan.Namespace, s.account.Key(), account.Key())
	}
	own, err := r.Accounts.For(ctx, account)
	if scoped.ReasonOf(err) == scoped.AccountNotEnrolled {
		return outcome{}, err
	}
	if err != nil {
		return waitForAccount(err)
	}
	crds, err := s.crdClient(ctx, own)
	if err != nil {
		return waitForAccount(err)
	}
	s.executor = &execute.Executor{Account: own, Key: account.Key(), IsDefault: account.Default, CRDs: crds, Facts: r.Live, Cluster: r.Client, RBAC: r.RBAC, Pruned: execute.Pruned{}, Interrupt: s.checkTurn, Place: s.takePlace}
	return proceed(), nil
}

// crdClient returns the client of the installation's CRD account if there is such an account and a
// CustomResourceDefinition has to be written. Otherwise, it returns own.
func (s *run) crdClient(ctx context.Context, own client.Client) (client.Client, error) {
	key := s.reconciler.CRDAccount
	written := func(st step.Step) bool { return st.IsCRD() && !s.served(ctx, st) }
	if key == (types.NamespacedName{}) || !slices.ContainsFunc(s.steps, written) {
		return own, nil
	}
	sa := &corev1.ServiceAccount{}
	if err := s.reconciler.Live.Get(ctx, key, sa); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &scoped.Error{Reason: scoped.AccountMissing, Namespace: key.Namespace,
				Message: fmt.Sprintf("ServiceAccount %s (the installation's CRD account) not found", key)}
		}
		return nil, fmt.Errorf("get ServiceAccount %s: %w", key, err)
	}
	account := scoped.Account{Namespace: key.Namespace, Name: key.Name, UID: sa.UID}
	if err := s.reconciler.Enrollment.Own(s.reconciler.RBAC, account); err != nil {
		return nil, err
	}
	// The lookup is recorded, so that a change to the CRD account's permissions wakes the plan.
	if _, err := s.reconciler.RBAC.EffectiveRules(rbac.ServiceAccount(key.Namespace, key.Name), rbac.ClusterScope); err != nil {
		return nil, err
	}
	return s.reconciler.Accounts.For(ctx, account)
}

// gather determines the live state of every object that the plan writes, and detects collisions.
func gather(ctx context.Context, s *run) (outcome, error) {
	gatherStates := s.executor.Gather
	if s.isNew() {
		gatherStates = s.executor.GatherNew
	}
	states, err := gatherStates(ctx, s.steps)
	switch {
	case errors.Is(err, errTurn):
		return s.awaitTurn(), nil
	case err != nil:
		return outcome{}, err
	}
	s.states = states
	execute.SkipOccupied(s.states)
	return proceed(), nil
}

// isNew reports whether most of the plan's objects probably do not exist yet: the plan replaces no version, and no run of
// it has written anything or has been refused by the API server.
func (s *run) isNew() bool {
	replaces := func(p resolver.Pin) bool { return p.Replaces != "" }
	refused := s.saved.Status.GetCondition(typeObjectsRefused).Status == corev1.ConditionTrue
	return !refused && !s.begun() && !slices.ContainsFunc(s.content.Pins, replaces)
}

// saveInterval is the minimum interval between saves of the plan while its steps are executed. A save costs as much as
// a step and only informs users: after a restart, the plan reads the live state again and resumes at the first step
// that is not done.
const saveInterval = 2 * time.Second

// resume replaces a status that describes what the plan was waiting for. applySteps calls resume before the first
// write.
func (s *run) resume(ctx context.Context) error {
	if !s.hasWaited() {
		return nil
	}
	s.plan.Status.Message = ""
	s.setInstalled(corev1.ConditionUnknown, reasonInstalling, "The plan's objects are being written")
	return s.save(ctx)
}

// hasWaited reports whether the saved status asks users for a grant, a change or an approval, or to wait for other plans.
func (s *run) hasWaited() bool {
	was := &s.saved.Status
	switch installed := was.GetCondition(operatorsv1alpha1.InstallPlanInstalled); installed.Reason {
	case names.ReasonAccountLacksPermissions, reasonCheckFailed, names.ReasonBundleContentUnavailable:
		return true
	case reasonInstalling:
		return installed.Status == corev1.ConditionFalse // the plan waited until other plans had been executed
	}
	return was.GetCondition(typeObjectsRefused).Status == corev1.ConditionTrue || was.Phase == operatorsv1alpha1.InstallPlanPhaseRequiresApproval
}

// written is the result of a step whose object existed before or not.
type written struct {
	execute.Done

	existed bool
}

// finish records the result of a step. Others can make existing objects large, so that it keeps none that was read, and of the results
// only what later actions use: the CSVs and the ServiceAccounts.
func (s *run) finish(i int, done execute.Done) {
	s.setStep(i, done.Status)
	state := &s.states[i]
	if live := done.Live; live != nil && !state.Step.IsCSV() && live.GetKind() != "ServiceAccount" {
		done.Live = apply.Reference(live.GroupVersionKind(), live.GetNamespace(), live.GetName())
		done.Live.SetUID(live.GetUID())
	}
	s.done = append(s.done, written{done, state.Live != nil && !state.Skipped})
	state.Live = nil
}

// applySteps executes the steps in order and saves the plan at intervals, so that users see its progress.
func applySteps(ctx context.Context, s *run) (outcome, error) {
	if s.plan.Status.StartTime == nil {
		now := s.now()
		s.plan.Status.StartTime = &now
	}
	if err := s.resume(ctx); err != nil {
		return outcome{}, err
	}
	saved := s.reconciler.Clock.Now()
	for i, state := range s.states {
		if s.checkTurn() != nil {
			return s.awaitTurn(), nil
		}
		if err := s.sameAccount(ctx); err != nil {
			return outcome{}, err
		}
		done, err := s.do(ctx, i)
		if preflight.IsPermanent(err) {
			s.setStep(i, operatorsv1alpha1.StepStatusNotCreated)
			return outcome{}, &invalid{reasonFailed, err}
		}
		if err != nil {
			return waitForAccount(err)
		}
		s.finish(i, done)
		if done.Status != operatorsv1alpha1.StepStatusCreated {
			continue
		}
		s.wrote = true
		log.FromContext(ctx).Info("Applied", "object", apply.Describe(state.Step.Object), "account", s.account.Key().String())
		if s.reconciler.Clock.Since(saved) < saveInterval {
			continue
		}
		s.showProgress()
		if err := s.save(ctx); err != nil {
			return outcome{}, err
		}
		saved = s.reconciler.Clock.Now()
	}
	return proceed(), nil
}

// do executes a step. If a user of its target namespace occupies its object, it skips this step and the later ones for this namespace.
func (s *run) do(ctx context.Context, i int) (execute.Done, error) {
	var warnings warning.List
	done, err := s.executor.Do(warning.Into(ctx, &warnings), s.states[i])
	s.warn(i, warnings.All())
	why := s.occupation(s.states[i], err)
	if why == nil {
		return done, err
	}
	s.states[i].Problem = why
	execute.SkipOccupied(s.states)
	s.noteOccupation(i)
	return execute.Done{Status: operatorsv1alpha1.StepStatusNotCreated}, nil
}

// sameAccount returns an error as soon as the cache shows that another account bounds the plan's namespace, so that no
// further step is executed as the old account and the plan starts over. It also returns an error if OLM v0 now manages the
// namespace, and for a deleted plan, because objects that are written after the cleanup would never be removed.
func (s *run) sameAccount(ctx context.Context) error {
	if err := s.checkNotDeleted(ctx); err != nil {
		return err
	}
	account, group, err := s.reconciler.Default.Lookup(s.reconciler.Client).Account(ctx, s.plan.Namespace)
	if scoped.CheckNotLeft(group) != nil {
		return errStale
	}
	if err = cmp.Or(err, scoped.CheckNotDeleted(group)); err != nil {
		return err
	}
	if account != s.account {
		return fmt.Errorf("the account of namespace %q changed to %s while the plan was executed", s.plan.Namespace, account.Key())
	}
	return nil
}

// awaitCRDs waits until the plan's CustomResourceDefinitions are established.
func awaitCRDs(ctx context.Context, s *run) (outcome, error) {
	for _, st := range s.steps {
		if !st.IsCRD() {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := s.reconciler.Client.Get(ctx, client.ObjectKey{Name: st.Object.GetName()}, crd)
		if client.IgnoreNotFound(err) != nil {
			return outcome{}, err
		}
		if err != nil || !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			return wait(reasonWaitingForAPI, message.Sprintf("waiting for CustomResourceDefinition %s to be established", st.Object.GetName())), nil
		}
	}
	return proceed(), nil
}

// complete sets the plan's phase to Complete. The message of the condition Installed lists what was omitted from the
// plan's objects.
func complete(ctx context.Context, s *run) (outcome, error) {
	s.notePruned()
	left, err := preflight.LeftOutText(s.steps)
	if err != nil {
		return outcome{}, err
	}
	s.setComplete(left)
	s.prune(ctx)
	return stop(), nil
}

// needsNoWrite reports, based on the cache, whether the account does not need permission to write a
// CustomResourceDefinition, because the definition is up to date or the CRD account writes it.
func (s *run) needsNoWrite(ctx context.Context, st step.Step) bool {
	return st.IsCRD() && (s.usesCRDAccount(st) || s.served(ctx, st))
}

// usesCRDAccount reports whether the installation's CRD account writes a CustomResourceDefinition instead of the
// account.
func (s *run) usesCRDAccount(st step.Step) bool {
	return s.reconciler.CRDAccount != (types.NamespacedName{}) && (s.account.Default || !execute.Approved(st))
}

func (s *run) served(ctx context.Context, st step.Step) bool {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.reconciler.Client.Get(ctx, client.ObjectKey{Name: st.Object.GetName()}, crd); err != nil {
		return false
	}
	return execute.ServedByOther(crd, st)
}
