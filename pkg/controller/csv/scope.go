package csv

import (
	"fmt"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// scope is the state that the steps of one reconcile share. Each step adds to it.
type scope struct {
	// csv is the object as it was read; facts.CSV has the status that will be written.
	csv   *operatorsv1alpha1.ClusterServiceVersion
	facts Facts
	moves []moved
	// leftToOLM is true if OLM manages the namespace but the cache does not show this yet.
	leftToOLM bool
	// recorded is true if this reconcile has changed the recorded account. The event for the change triggers another one.
	recorded bool

	subscription *operatorsv1alpha1.Subscription
	owner        ownerutil.Owner
	siblings     siblings
	namespace    corev1.Namespace
	group        *operatorsv1.OperatorGroup
	targets      []string
	// account and acting are set if the reconcile has an account to act as. acting restricts what the account's client
	// may write.
	account scoped.Account
	acting  warrant.Account
	// made contains the creation times of the ServiceAccounts that this install created, keyed by name.
	made    map[string]time.Time
	checker *install.CSVRuleChecker
	// holdings contains the account's permissions by scope.
	holdings *rbac.Recent[string]
	// occupied contains why the operator gets no permissions in some of the target namespaces (see execute.Occupies).
	occupied map[string]error
	// unconfirmed contains the Roles that execute.IsUnconfirmed reports, as apply.Describe describes them.
	unconfirmed map[string]bool
	// withheld contains the targets in which an installed operator gets no permissions, because the account may not grant them there.
	withheld map[string]bool
	// restored contains the targets in which this reconcile has written objects that the cache does not show yet.
	restored map[string]bool
	// covered records which of the CSV's permissions the account has.
	covered coverage

	// hooks contains the operator's desired webhooks and APIs, and live the corresponding live objects. uncalled lists the
	// permissions that the account needs for writing them but does not have.
	hooks    *hooks.Plan
	live     *hooks.Live
	uncalled error
	// overreach is true if a live webhook intercepts what the account does not permit.
	overreach    bool
	certificates []hooks.Certificate
	// uncertified is the reason that a certificate could not be issued, or nil.
	uncertified error
	// blockedBy is the name of the Deployment that later Deployments wait for, or "".
	blockedBy string
	// after is the delay before a reconcile that no event triggers; 0 requests none.
	after time.Duration

	deployments  []*appsv1.Deployment
	requirements []operatorsv1alpha1.RequirementStatus
	// evaluated is true if all facts were gathered.
	evaluated bool
	// running is the number of existing Deployments that must be deleted before conversions are reset.
	running int
	// justPublished contains the names of the ClusterRoles that publish has written in this reconcile.
	justPublished map[string]bool
	// turn counts the objects that this reconcile reads and writes one by one.
	turn turn
	// deleted is true if the CSV itself was deleted in this reconcile.
	deleted bool
}

// runnable reports whether neither the CSV's content, nor the OperatorGroup, nor a replacing version prevents the CSV
// from running.
func (s *scope) runnable() bool {
	return s.facts.Group == nil && s.facts.Strategy == nil && s.facts.Webhooks == nil && s.facts.APIs == nil && s.facts.ReplacedBy == ""
}

// config returns the config of the CSV's Subscription, or nil if there is none.
func (s *scope) config() *operatorsv1alpha1.SubscriptionConfig {
	if s.subscription == nil || s.subscription.Spec == nil {
		return nil
	}
	return s.subscription.Spec.Config
}

// tooLarge returns an error if the cache contains only a part of the CSV or its Subscription.
func (s *scope) tooLarge() error {
	if err := budget.Refused(s.csv); err != nil || s.subscription == nil {
		return err
	}
	if err := budget.Refused(s.subscription); err != nil {
		return fmt.Errorf("Subscription %s, with the config of the Deployments: %w", s.subscription.Name, err)
	}
	return nil
}

// wakeAfter requests another reconcile after at most d; 0 requests none.
func (s *scope) wakeAfter(d time.Duration) {
	if d > 0 && (s.after == 0 || d < s.after) {
		s.after = d
	}
}

// moved is a transition that changed the phase or reason.
type moved struct {
	Transition

	from operatorsv1alpha1.ClusterServiceVersionPhase
}

// pass applies a transition to the status that will be written.
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
