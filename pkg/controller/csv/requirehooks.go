package csv

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"

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
func (r *Reconciler) requireHooks(ctx context.Context, s *scope) error {
	s.requireOwnAPIs()
	demands := make([][]demand, len(s.csv.Spec.WebhookDefinitions))
	for i := range s.csv.Spec.WebhookDefinitions {
		demands[i] = s.interceptionsOf(&s.csv.Spec.WebhookDefinitions[i])
	}
	held, err := r.held(ctx, s, slices.Concat(demands...))
	if err != nil {
		return err
	}
	for i := range s.csv.Spec.WebhookDefinitions {
		status, err := s.requireWebhook(&s.csv.Spec.WebhookDefinitions[i], demands[i], held[:len(demands[i])])
		if err != nil {
			return err
		}
		s.requirements, held = append(s.requirements, status), held[len(demands[i]):]
	}
	s.requireCertificates()
	return nil
}

// interceptionsOf returns what the account must have so that the operator may intercept the resources of a webhook.
func (s *scope) interceptionsOf(d *operatorsv1alpha1.WebhookDescription) []demand {
	if s.facts.Webhooks != nil || !s.acting.Known() || s.account.Default || d.Type == operatorsv1alpha1.ConversionWebhook {
		return nil
	}
	intercepts := s.hooks.Intercepts(d)
	return s.demandsOf(intercepts.Namespaced, intercepts.Cluster)
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

// requireWebhook returns the requirement status of a webhook. Its dependents are the demands on the account, and held contains which
// of their rules the account has.
func (s *scope) requireWebhook(d *operatorsv1alpha1.WebhookDescription, demands []demand, held [][]bool) (operatorsv1alpha1.RequirementStatus, error) {
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
	var err error
	status.Dependents, err = dependentsOf(demands, held)
	if slices.ContainsFunc(held, func(rules []bool) bool { return slices.Contains(rules, false) }) {
		status.Status, status.Message = requirement.NotSatisfied,
			"An operator may intercept only what its account can read and write: ServiceAccount "+s.account.Key().String()+" is missing permissions"
	}
	return status, err
}

// held reports which rules of each demand the account has in all of the scopes. It examines one scope after the other, because the
// account's permissions are kept for few of them at a time.
func (r *Reconciler) held(ctx context.Context, s *scope, demands []demand) ([][]bool, error) {
	out, scopes := make([][]bool, len(demands)), sets.New[string]()
	for i, d := range demands {
		out[i] = slices.Repeat([]bool{true}, len(d.rules))
		if len(d.rules) > 0 {
			scopes.Insert(d.scopes...)
		}
	}
	for _, namespace := range sets.List(scopes) {
		for i, d := range demands {
			if err := context.Cause(ctx); err != nil {
				return nil, err
			}
			if _, ok := slices.BinarySearch(d.scopes, namespace); !ok {
				continue
			}
			for j, rule := range d.rules {
				out[i][j] = out[i][j] && r.holds(s, rule, namespace)
			}
		}
	}
	return out, nil
}

// holds reports whether the account has a rule's permissions in a scope.
func (r *Reconciler) holds(s *scope, rule rbacv1.PolicyRule, namespace string) bool {
	if s.holdings == nil {
		s.holdings = rbac.NewRecent(func(namespace string) rbac.Permissions {
			return r.RBAC.LowerBound(rbac.ServiceAccount(s.account.Namespace, s.account.Name), namespace)
		})
	}
	return s.holdings.Get(namespace).Set().Covers([]rbacv1.PolicyRule{rule})
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
