package operatorgroup

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

const serviceAccountPrefix = "system:serviceaccount:"

// Enrolment answers for which of Remit's programs an account is not enrolled. It asks the API server
// about their users, and never mints a token to find out.
type Enrolment struct {
	client client.Client
	// programs are the users to ask about.
	programs []authenticationv1.UserInfo
}

// NewEnrolment asks the API server, once, who this program is. Where it is one of Remit's two
// ServiceAccounts, both are asked about from then on, so that a half enrolment is told; a program run
// by a person asks about that person.
func NewEnrolment(ctx context.Context, c client.Client) (*Enrolment, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("ask who this program is: %w", err)
	}
	return &Enrolment{client: c, programs: programs(review.Status.UserInfo)}, nil
}

func programs(self authenticationv1.UserInfo) []authenticationv1.UserInfo {
	namespace, _, ok := strings.Cut(strings.TrimPrefix(self.Username, serviceAccountPrefix), ":")
	if !ok || !strings.HasPrefix(self.Username, serviceAccountPrefix) {
		return []authenticationv1.UserInfo{self}
	}
	var out []authenticationv1.UserInfo
	for _, name := range []string{names.ServiceAccountCatalog, names.ServiceAccountOLM} {
		out = append(out, authenticationv1.UserInfo{
			Username: scoped.Username(namespace, name), Groups: scoped.Groups(namespace),
		})
	}
	return out
}

// Missing returns the users that may not request the account's token, in a fixed order.
func (e *Enrolment) Missing(ctx context.Context, account scoped.Account) ([]string, error) {
	var missing []string
	for _, user := range e.programs {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "create", Version: "v1", Resource: "serviceaccounts", Subresource: "token",
				Namespace: account.Namespace, Name: account.Name,
			},
		}}
		if err := e.client.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("ask whether %s may request tokens of ServiceAccount %s: %w", user.Username, account.Key(), err)
		}
		if !review.Status.Allowed {
			missing = append(missing, user.Username)
		}
	}
	return missing, nil
}

// enrolHelp says what is missing and what to paste.
func enrolHelp(account scoped.Account, users []string) string {
	var subjects strings.Builder
	shown := make([]string, 0, len(users))
	for _, user := range users {
		namespace, name, ok := strings.Cut(strings.TrimPrefix(user, serviceAccountPrefix), ":")
		if !ok {
			fmt.Fprintf(&subjects, "- {kind: User, apiGroup: rbac.authorization.k8s.io, name: %q}\n", user)
			shown = append(shown, user)
			continue
		}
		fmt.Fprintf(&subjects, "- {kind: ServiceAccount, namespace: %s, name: %s}\n", namespace, name)
		shown = append(shown, namespace+"/"+name)
	}
	return fmt.Sprintf(enrolText, account.Key(), strings.Join(shown, " and "), account.Name, account.Namespace) + subjects.String()
}

const enrolText = `ServiceAccount %[1]s is not enrolled: %[2]s may not request a token for it. Whoever may grant that applies:
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: remit-enrolment-%[3]s, namespace: %[4]s}
rules:
- {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [%[3]s], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: remit-enrolment-%[3]s, namespace: %[4]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: remit-enrolment-%[3]s}
subjects:
`
