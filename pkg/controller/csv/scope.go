package csv

import (
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// scope is what the steps of one reconcile share. The facts grow from step to step.
type scope struct {
	// csv is as the API server has it; that of the facts as its status is to become.
	csv   *operatorsv1alpha1.ClusterServiceVersion
	facts Facts
	moves []moved

	subscription *operatorsv1alpha1.Subscription
	owner        ownerutil.Owner
	siblings     siblings
	group        *operatorsv1.OperatorGroup
	targets      []string
	// account and client are set where there is an account to act as.
	account scoped.Account
	client  client.Client
	checker *install.CSVRuleChecker
	// covered is how the account covers the CSV's permissions.
	covered coverage

	deployments  []*appsv1.Deployment
	requirements []operatorsv1alpha1.RequirementStatus
	// looked says that all facts were gathered.
	looked bool
	// gone says that the CSV itself was deleted in this look.
	gone bool
}

// canAct says whether there is an account to act as, for a CSV that may run.
func (s *scope) canAct() bool { return s.client != nil && s.runnable() }

// runnable says whether the CSV may run as far as its author and the OperatorGroup are concerned.
func (s *scope) runnable() bool {
	return s.facts.Group == nil && s.facts.Strategy == nil && s.facts.ReplacedBy == ""
}

// moved is a change of phase or reason.
type moved struct {
	Transition

	from operatorsv1alpha1.ClusterServiceVersionPhase
}

// pass puts a transition into the status that is to be.
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
