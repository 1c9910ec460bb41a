package installplan

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/flow"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// openClients looks the account up again, live, and opens its client. From here on things are sent. That
// the token is refused although the cache shows the enrolment is a failure like others: the API server's
// own view trails ours by moments.
func openClients(ctx context.Context, s *run) (flow.Outcome, error) {
	r := s.reconciler
	if err := s.current(ctx); err != nil {
		return flow.Outcome{}, err
	}
	account, _, err := s.lookup(r.Live).Account(ctx, s.plan.Namespace)
	if err != nil {
		return waitForAccount(err)
	}
	if account != s.account {
		return flow.Outcome{}, fmt.Errorf("the account of namespace %q changed from %s to %s", s.plan.Namespace, s.account.Key(), account.Key())
	}
	own, err := r.Accounts.For(ctx, account)
	if scoped.ReasonOf(err) == scoped.AccountNotEnrolled {
		return flow.Outcome{}, err
	}
	if err != nil {
		return waitForAccount(err)
	}
	crds, err := s.crdClient(ctx, own)
	if err != nil {
		return waitForAccount(err)
	}
	s.executor = &execute.Executor{Account: own, IsDefault: account.Default, CRDs: crds, Facts: r.Live, Cluster: r.Client, RBAC: r.RBAC, Pruned: execute.Pruned{}}
	s.plan.Status.AttenuatedServiceAccountRef = &corev1.ObjectReference{
		Kind: "ServiceAccount", APIVersion: "v1", Namespace: account.Namespace, Name: account.Name, UID: account.UID,
	}
	return flow.Next(), nil
}

// crdClient acts as the installation's CRD account where it has something to write.
func (s *run) crdClient(ctx context.Context, own client.Client) (client.Client, error) {
	key := s.reconciler.CRDAccount
	written := func(st step.Step) bool { return st.IsCRD() && !s.served(st) }
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
	if err := s.reconciler.Enrolment.Own(s.reconciler.RBAC, account); err != nil {
		return nil, err
	}
	// What it is refused is tried again, and again at once when it is granted something.
	if _, err := s.reconciler.RBAC.EffectiveRules(rbac.ServiceAccount(key.Namespace, key.Name), rbac.ClusterScope); err != nil {
		return nil, err
	}
	return s.reconciler.Accounts.For(ctx, account)
}

// gather reads every object that the plan makes, and what is in the way of it.
func gather(ctx context.Context, s *run) (flow.Outcome, error) {
	states, err := s.executor.Gather(ctx, s.steps)
	if err != nil {
		return flow.Outcome{}, err
	}
	s.states = states
	return flow.Next(), nil
}

// saveInterval is how often the plan is saved while its steps are done. A save costs as much as a step,
// and only people need it: a restart gathers again and goes on at the first step that is not done.
const saveInterval = 500 * time.Millisecond

// resume replaces, before the first write, a status that says what a plan waits for.
func (s *run) resume(ctx context.Context) error {
	if !s.hasWaited() {
		return nil
	}
	s.plan.Status.Message = ""
	s.setInstalled(corev1.ConditionUnknown, reasonInstalling, "The plan's objects are being written")
	return s.save(ctx)
}

// hasWaited reports whether the saved status says that something has to be granted, changed or approved first.
func (s *run) hasWaited() bool {
	was := &s.saved.Status
	switch string(was.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Reason) {
	case reasonPermissions, reasonCheckFailed, reasonContent:
		return true
	}
	return was.GetCondition(typeObjectsRefused).Status == corev1.ConditionTrue || was.Phase == operatorsv1alpha1.InstallPlanPhaseRequiresApproval
}

// applySteps does one step after the other and saves the plan now and then, so that people see how far
// it is.
func applySteps(ctx context.Context, s *run) (flow.Outcome, error) {
	if s.plan.Status.StartTime == nil {
		now := s.now()
		s.plan.Status.StartTime = &now
	}
	if err := s.resume(ctx); err != nil {
		return flow.Outcome{}, err
	}
	saved := s.reconciler.Clock.Now()
	for i, state := range s.states {
		if err := s.sameAccount(ctx); err != nil {
			return flow.Outcome{}, err
		}
		done, err := s.executor.Do(ctx, state)
		if preflight.IsPermanent(err) {
			s.setStep(i, operatorsv1alpha1.StepStatusNotCreated)
			return flow.Outcome{}, &invalid{reasonFailed, err}
		}
		if err != nil {
			return waitForAccount(err)
		}
		s.setStep(i, done.Status)
		s.done = append(s.done, done)
		if done.Status == operatorsv1alpha1.StepStatusPresent {
			continue
		}
		s.wrote = true
		log.FromContext(ctx).Info("Applied", "object", apply.Describe(state.Step.Object), "account", s.account.Key().String())
		if s.reconciler.Clock.Since(saved) < saveInterval {
			continue
		}
		if err := s.save(ctx); err != nil {
			return flow.Outcome{}, err
		}
		saved = s.reconciler.Clock.Now()
	}
	return flow.Next(), nil
}

// sameAccount stops a plan as soon as it is seen, in the cache, that its namespace is bounded by
// somebody else: no step is done as the old account after that, and the plan begins again. It stops one
// that is gone, too: with it goes what it has made, and nobody would remove what comes later.
func (s *run) sameAccount(ctx context.Context) error {
	if err := s.unlessGone(ctx); err != nil {
		return err
	}
	account, _, err := s.lookup(s.reconciler.Client).Account(ctx, s.plan.Namespace)
	if err != nil {
		return err
	}
	if account != s.account {
		return fmt.Errorf("the account of namespace %q changed to %s while the plan was carried out", s.plan.Namespace, account.Key())
	}
	return nil
}

// awaitCRDs waits until the API server serves the plan's CustomResourceDefinitions.
func awaitCRDs(ctx context.Context, s *run) (flow.Outcome, error) {
	for _, st := range s.steps {
		if !st.IsCRD() {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := s.reconciler.Client.Get(ctx, client.ObjectKey{Name: st.Object.GetName()}, crd)
		if client.IgnoreNotFound(err) != nil {
			return flow.Outcome{}, err
		}
		if err != nil || !established(crd) {
			return flow.Wait(reasonWaitingForAPI, fmt.Sprintf("waiting for CustomResourceDefinition %s to be established", st.Object.GetName())), nil
		}
	}
	return flow.Next(), nil
}

// complete ends the plan. What was left out of its objects is in the message of the condition Installed.
func complete(ctx context.Context, s *run) (flow.Outcome, error) {
	s.notePruned()
	left, err := preflight.LeftOutText(s.steps)
	if err != nil {
		return flow.Outcome{}, err
	}
	s.setComplete(left)
	s.prune(ctx)
	return flow.Done(), nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// servedAlready says, from the cache, that a CustomResourceDefinition needs no write, so that no
// right to write it is asked for (security model, D1). Where another account writes them, none is
// asked of this one either.
func (s *run) servedAlready(st step.Step) bool {
	return st.IsCRD() && (s.writtenForIt(st) || s.served(st))
}

// writtenForIt says whether the installation's CRD account writes a CustomResourceDefinition in place of the account.
func (s *run) writtenForIt(st step.Step) bool {
	return s.reconciler.CRDAccount != (types.NamespacedName{}) && (s.account.Default || !execute.Approved(st))
}

func (s *run) served(st step.Step) bool {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.reconciler.Client.Get(context.Background(), client.ObjectKey{Name: st.Object.GetName()}, crd); err != nil {
		return false
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return false
	}
	live := &unstructured.Unstructured{Object: content}
	return !st.Owner.Owns(live) && execute.Serves(live, st.Object)
}
