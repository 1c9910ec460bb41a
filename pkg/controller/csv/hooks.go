package csv

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// gatherNamespace reads the CSV's namespace from the cache. The namespace is needed to recognize objects of an earlier
// namespace with the same name.
func (r *Reconciler) gatherNamespace(ctx context.Context, s *scope) error {
	if err := r.Client.Get(ctx, types.NamespacedName{Name: s.csv.Namespace}, &s.namespace); err != nil {
		return fmt.Errorf("get Namespace %q: %w", s.csv.Namespace, err)
	}
	return nil
}

// gatherHooks plans the operator's webhooks and APIs, and finds the corresponding live objects.
func (r *Reconciler) gatherHooks(ctx context.Context, s *scope) error {
	group, err := r.reach(ctx, s)
	if err != nil {
		return err
	}
	s.hooks, err = hooks.New(hooks.Input{
		CSV: s.csv, Owner: s.owner, Group: group, NamespaceUID: s.namespace.UID, Config: s.config(), Scopes: r.world().Lookups().Scopes(ctx),
		Holds: func(rule rbacv1.PolicyRule) bool {
			return r.holds(s, rule, rbac.ClusterScope)
		},
		Taken: func(kind, namespace, name string) bool {
			live, err := r.RBAC.Object(kind, namespace, name)
			return err == nil && !s.owner.Owns(live)
		},
	})
	if err != nil {
		return err
	}
	if s.live, err = hooks.Gather(ctx, r.Client, s.hooks, client.MatchingFields{kit.LineageIndex: s.owner.ShortMark()}); err != nil {
		return err
	}
	s.facts.Taken = s.live.Taken(s.hooks)
	if group.Bounded && s.acting.Known() {
		s.facts.Webhooks = webhook.Refused(s.csv)
	}
	if s.acting.Known() && s.facts.Webhooks == nil && !s.hooks.Empty() {
		return r.hooksRefused(ctx, s)
	}
	return nil
}

// reach returns the namespaces that the operator's webhooks cover: the targets that exist. Terminating targets are
// excluded, so that their deletion does not wait for the operator. Targets that are created later are checked before
// they are covered.
func (r *Reconciler) reach(ctx context.Context, s *scope) (webhook.Group, error) {
	group := webhook.Group{Bounded: !s.account.Default, Spared: r.Spared}
	for _, target := range s.targets {
		if target != rbac.ClusterScope {
			namespace := &corev1.Namespace{}
			err := r.Client.Get(ctx, types.NamespacedName{Name: target}, namespace)
			if client.IgnoreNotFound(err) != nil {
				return group, fmt.Errorf("get Namespace %q: %w", target, err)
			}
			if err != nil || namespace.DeletionTimestamp != nil {
				continue
			}
		}
		group.Targets = append(group.Targets, target)
	}
	return group, nil
}

// hooksRefused checks whether the account may write the CSV's webhooks and APIs, and the resources that the operator
// intercepts. It records missing permissions in the scope.
func (r *Reconciler) hooksRefused(ctx context.Context, s *scope) error {
	needs, err := s.hooks.Needs()
	if err != nil {
		return err
	}
	err = r.missingNow(ctx, s, forHooks, needs)
	if isMissingPermissions(err) {
		s.uncalled = err
		return s.acceptNarrowed()
	}
	return err
}

// missingNow calls missingForNeeds with only those needs whose Later field is false.
func (r *Reconciler) missingNow(ctx context.Context, s *scope, purpose string, needs []hooks.Need) error {
	var now []preflight.Need
	for _, n := range needs {
		if !n.Later {
			n.Invalid = nil // webhook.Refused reports requests that must not be intercepted
			now = append(now, n)
		}
	}
	identities := preflight.Identities{Account: s.account.Identity(), RBAC: r.RBAC, Proofs: r.Proofs, Home: s.csv.Namespace, In: func(namespace string) ([]string, error) {
		return scoped.ServiceAccounts(ctx, r.Client, namespace)
	}}
	now, err := identities.Resolve(now)
	if err != nil {
		return err
	}
	return r.missingForNeeds(ctx, s, purpose, now)
}

// gatherCalls checks whether the webhooks and APIs of each Deployment are in the desired state, and applies them when
// the Deployment is ready. While one of them is missing, the later Deployments wait.
func (r *Reconciler) gatherCalls(ctx context.Context, s *scope) error {
	s.facts.Due = !s.facts.Deployments.Installed
	if s.hooks.Empty() {
		return r.pruneHooks(ctx, s)
	}
	s.facts.Due = false
	for _, d := range s.deployments {
		one, err := deployment.CheckOne(ctx, r.Client, s.owner, d)
		if err != nil {
			return err
		}
		complete := one.Ready
		if complete && s.hooks.Serves(d.Name) {
			if complete, err = r.call(ctx, s, d.Name); err != nil {
				return err
			}
		}
		s.facts.Due = s.facts.Due || !one.Installed
		if !complete {
			s.blockedBy = d.Name
			s.facts.Calls.Missing = true
			break
		}
	}
	if s.blockedBy == "" {
		// Objects that the CSV no longer contains are removed last.
		s.facts.Due = s.facts.Due || !s.facts.Deployments.Installed
		return r.pruneHooks(ctx, s)
	}
	return nil
}

// call applies the webhooks and APIs of a ready Deployment, and reports whether all of them are in the desired state.
func (r *Reconciler) call(ctx context.Context, s *scope, name string) (bool, error) {
	if account, barred := s.writer(warrant.Install); barred == nil && s.hooks.Certified(name) {
		changed, err := r.installer(s, account).Ensure(ctx, s.hooks, s.live, name)
		if len(changed) > 0 {
			log.FromContext(ctx).Info("Installed webhooks and APIs", "changes", changed, "account", s.account.Key().String())
			s.facts.Unsynced = true
		}
		if ok, err := s.refusedCall(err); !ok {
			return false, err
		}
	}
	state, err := s.live.Check(s.hooks, name)
	if state.Missing && !s.hooks.Certified(name) {
		s.facts.CallRefused = s.uncertified
	}
	s.facts.Calls.Problem = cmp.Or(s.facts.Calls.Problem, state.Problem)
	s.facts.Calls.Unavailable = s.facts.Calls.Unavailable || state.Unavailable
	return !state.Missing, err
}

// refusedCall records in the facts that a write of webhooks or APIs was refused. ok is true if err is nil. failure is err
// if err is neither a refusal nor caused by an outdated cache.
func (s *scope) refusedCall(err error) (ok bool, failure error) {
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsConflict(err) && !refusal(err): // the cache is outdated; the pending event triggers another reconcile
		return false, nil
	case refusal(err) || isMissingPermissions(err) || kit.Is[*hooks.PreservedError](err):
		s.facts.CallRefused = err
		s.facts.Calls.Problem = summary(err)
		s.facts.Notes = append(s.facts.Notes, summary(err))
		return false, nil
	}
	return false, err
}

// pruneHooks deletes the webhooks and APIs of earlier versions that this version does not contain, once this version is
// installed.
func (r *Reconciler) pruneHooks(ctx context.Context, s *scope) error {
	surplus, err := s.live.Surplus(s.hooks)
	account, barred := s.writer(warrant.Retire)
	if err != nil || !surplus || barred != nil {
		return err
	}
	changed, err := r.installer(s, account).Prune(ctx, s.hooks, s.live)
	if len(changed) > 0 {
		log.FromContext(ctx).Info("Removed webhooks and APIs", "changes", changed, "account", s.account.Key().String())
	}
	_, err = s.refusedCall(err)
	return err
}

func (r *Reconciler) installer(s *scope, account client.Client) hooks.Installer {
	return hooks.Installer{Account: account, Policy: r.Certificates, Now: s.facts.Now, Memory: r.memory}
}
