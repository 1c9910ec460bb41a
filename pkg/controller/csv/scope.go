package csv

import (
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// scope has what the steps of one reconcile share. Each step adds facts.
type scope struct {
	// csv is as the API server has it; the status of facts.CSV is the one to be written.
	csv   *operatorsv1alpha1.ClusterServiceVersion
	facts Facts
	moves []moved

	subscription *operatorsv1alpha1.Subscription
	owner        ownerutil.Owner
	siblings     siblings
	namespace    corev1.Namespace
	group        *operatorsv1.OperatorGroup
	targets      []string
	// account and acting are set if there is an account to act as; acting guards the client.
	account scoped.Account
	acting  warrant.Account
	// holdings are the account's permissions by scope, as far as they were queried.
	holdings map[string]rbac.Permissions
	// made are the ServiceAccounts that this install created, and when.
	made    map[string]time.Time
	checker *install.CSVRuleChecker
	// covered is how the account covers the CSV's permissions.
	covered coverage

	// hooks is how the operator is to be called, and live the corresponding live objects. uncalled lists the
	// permissions that the account is missing for it.
	hooks        *hooks.Plan
	live         *hooks.Live
	uncalled     error
	certificates []hooks.Certificate
	// uncertified is the reason that a certificate could not be issued.
	uncertified error
	// blockedBy names the Deployment for which later ones wait, or "".
	blockedBy string
	// after is when to reconcile again without an event; 0 means never.
	after time.Duration

	deployments  []*appsv1.Deployment
	requirements []operatorsv1alpha1.RequirementStatus
	// evaluated is true if all facts were gathered.
	evaluated bool
	// running is the number of Deployments that must be deleted before conversions are reset.
	running int
	// gone is true if the CSV itself was deleted in this reconcile.
	gone bool
}

// runnable reports whether the CSV may run as far as its author and the OperatorGroup are concerned.
func (s *scope) runnable() bool {
	return s.facts.Group == nil && s.facts.Strategy == nil && s.facts.Webhooks == nil && s.facts.APIs == nil && s.facts.ReplacedBy == ""
}

// config returns the Subscription's config, or nil.
func (s *scope) config() *operatorsv1alpha1.SubscriptionConfig {
	if s.subscription == nil || s.subscription.Spec == nil {
		return nil
	}
	return s.subscription.Spec.Config
}

// wakeAfter requests another reconcile after a time or earlier; 0 requests none.
func (s *scope) wakeAfter(d time.Duration) {
	if d > 0 && (s.after == 0 || d < s.after) {
		s.after = d
	}
}

// moved is a change of phase or reason.
type moved struct {
	Transition

	from operatorsv1alpha1.ClusterServiceVersionPhase
}

// pass applies a transition to the status to be written.
func (s *scope) pass(t Transition) {
	before := s.facts.CSV.Status
	message := status.Text(t.Message)
	changed := before.Phase != t.Phase || before.Reason != t.Reason
	if !changed && before.Message == message {
		return
	}
	now := metav1.NewTime(s.facts.Now)
	s.facts.CSV.SetPhase(t.Phase, t.Reason, message, &now)
	if changed {
		t.Message = message
		s.moves = append(s.moves, moved{t, before.Phase})
	}
}
