package csv

import (
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// scope is what the steps of one reconcile share. The facts grow from step to step.
type scope struct {
	csv   *operatorsv1alpha1.ClusterServiceVersion
	facts Facts

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
