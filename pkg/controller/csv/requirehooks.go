package csv

import (
	"fmt"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/requirement"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Requirement statuses of an APIService that the CSV owns.
const (
	deploymentFound    operatorsv1alpha1.StatusReason = "DeploymentFound"
	deploymentNotFound operatorsv1alpha1.StatusReason = "DeploymentNotFound"
)

// requireHooks reports the operator's webhooks, its APIs and their certificates as requirements. Earlier steps do not
// wait for these requirements, and the CSV's phase reports problems with them.
func (r *Reconciler) requireHooks(s *scope) error {
	s.requireOwnAPIs()
	for i := range s.csv.Spec.WebhookDefinitions {
		status, err := r.requireWebhook(s, &s.csv.Spec.WebhookDefinitions[i])
		if err != nil {
			return err
		}
		s.requirements = append(s.requirements, status)
	}
	s.requireCertificates()
	return nil
}

func (s *scope) requireOwnAPIs() {
	found := map[string]bool{}
	for _, d := range s.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		found[d.Name] = true
	}
	for _, api := range s.csv.Spec.APIServiceDefinitions.Owned {
		status := requirement.APIService(api)
		status.Status = deploymentFound
		if !found[api.DeploymentName] {
			status.Status = deploymentNotFound
		}
		s.requirements = append(s.requirements, status)
	}
}

// requireWebhook returns the requirement status of a webhook. If the group is bounded, its dependents are the
// permissions that the account must have so that the operator may intercept the webhook's resources.
func (r *Reconciler) requireWebhook(s *scope, d *operatorsv1alpha1.WebhookDescription) (operatorsv1alpha1.RequirementStatus, error) {
	status := operatorsv1alpha1.RequirementStatus{
		Group: "admissionregistration.k8s.io", Version: "v1", Kind: string(d.Type), Name: d.GenerateName,
		Status: requirement.Present, Message: fmt.Sprintf("Webhook is served by deployment %q", d.DeploymentName),
	}
	switch {
	case s.facts.Webhooks != nil:
		status.Status, status.Message = requirement.NotSatisfied, summary(s.facts.Webhooks)
		return status, nil
	case s.live == nil || !s.live.Has(s.hooks, d):
		status.Status, status.Message = requirement.NotPresent, fmt.Sprintf("Webhook is not present: it will be created when deployment %q is ready", d.DeploymentName)
	}
	if !s.acting.Known() || s.account.Default || d.Type == operatorsv1alpha1.ConversionWebhook {
		return status, nil
	}
	intercepts := s.hooks.Intercepts(d)
	for _, demanded := range s.demandsOf(intercepts.Namespaced, intercepts.Cluster) {
		for _, rule := range demanded.rules {
			granted := r.holds(s, rule, demanded.scopes)
			dependent, err := policyRule(demanded.kind, rule, granted)
			if err != nil {
				return status, err
			}
			status.Dependents = append(status.Dependents, dependent)
			if !granted {
				status.Status, status.Message = requirement.NotSatisfied,
					"An operator may intercept only what its account can read and write: ServiceAccount "+s.account.Key().String()+" is missing permissions"
			}
		}
	}
	return status, nil
}

// holds reports whether the account has a rule's permissions in all of the scopes.
func (r *Reconciler) holds(s *scope, rule rbacv1.PolicyRule, scopes []string) bool {
	for _, namespace := range scopes {
		if _, known := s.holdings[namespace]; !known {
			if s.holdings == nil {
				s.holdings = map[string]rbac.Permissions{}
			}
			s.holdings[namespace] = r.RBAC.LowerBound(rbac.ServiceAccount(s.account.Namespace, s.account.Name), namespace)
		}
		if !s.holdings[namespace].Set().Covers([]rbacv1.PolicyRule{rule}) {
			return false
		}
	}
	return true
}

// requireCertificates reports when the certificates expire.
func (s *scope) requireCertificates() {
	for _, c := range s.certificates {
		status := operatorsv1alpha1.RequirementStatus{Version: "v1", Kind: "Secret", Name: cert.SecretName(c.Deployment), Status: requirement.Present}
		switch {
		case s.hooks.Outsourced():
			status.Message = "The certificate is managed by a certificate tool"
		case c.Expires.IsZero():
			status.Status, status.Message = requirement.NotPresent, "The certificate has not been issued yet"
		default:
			status.Message = fmt.Sprintf("The certificate expires on %s and will be rotated on %s",
				c.Expires.UTC().Format(time.DateOnly), c.RotateAt.UTC().Format(time.DateOnly))
		}
		if c.Blocked != nil {
			status.Status = requirement.NotSatisfied
			status.Message += "; a new certificate cannot be issued: " + summary(c.Blocked)
		}
		s.requirements = append(s.requirements, status)
	}
}
