package controller

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

const serviceAccountPrefix = "system:serviceaccount:"

// Enrolment answers for which of Remit's programs an account is not enrolled. Enrolment is RBAC (security
// model, rule 5), so the answer is in the cache: it costs no request, and never a token.
type Enrolment struct {
	rbac rbac.Listers
	// programs are the users to answer for.
	programs []rbac.Subject
}

// NewEnrolment asks the API server, once, who this program is. Where it is one of Remit's two
// ServiceAccounts, both are answered for from then on, so that a half enrolment is told; a program run
// by a person answers for that person.
func NewEnrolment(ctx context.Context, c client.Client, listers rbac.Listers) (*Enrolment, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("ask who this program is: %w", err)
	}
	return &Enrolment{rbac: listers, programs: programs(review.Status.UserInfo)}, nil
}

func programs(self authenticationv1.UserInfo) []rbac.Subject {
	namespace, _, ok := strings.Cut(strings.TrimPrefix(self.Username, serviceAccountPrefix), ":")
	if !ok || !strings.HasPrefix(self.Username, serviceAccountPrefix) {
		return []rbac.Subject{{User: self.Username, Groups: self.Groups}}
	}
	return []rbac.Subject{
		rbac.ServiceAccount(namespace, names.ServiceAccountCatalog),
		rbac.ServiceAccount(namespace, names.ServiceAccountOLM),
	}
}

// Missing returns the users that may not request the account's token, in a fixed order.
func (e *Enrolment) Missing(account scoped.Account) ([]string, error) {
	mint := []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"},
		ResourceNames: []string{account.Name}, Verbs: []string{"create"},
	}}
	var missing []string
	for _, program := range e.programs {
		held, err := e.rbac.Held(program, account.Namespace)
		if err != nil {
			return nil, fmt.Errorf("rules held by %s: %w", program.User, err)
		}
		if len(rbac.Missing(held, mint)) > 0 {
			missing = append(missing, program.User)
		}
	}
	return missing, nil
}
