package program

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests/policy"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// checkPolicies returns an error unless the cluster's admission policies limit the identity that this program runs as
// (docs/adr/0027).
func (p Program) checkPolicies(ctx context.Context, config *rest.Config, common Common) error {
	scheme, err := controller.NewScheme()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return p.CheckPolicies(ctx, c, common)
}

// CheckPolicies is checkPolicies with a given client. Programs without a manager call it directly.
func (p Program) CheckPolicies(ctx context.Context, c client.Client, common Common) error {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return fmt.Errorf("determine the user that this program runs as: %w", err)
	}
	want := scoped.Username(common.Namespace, p.UserAgent)
	if got := review.Status.UserInfo.Username; got != want {
		return fmt.Errorf("this program runs as user %q, but the admission policies limit %q: use the credentials of ServiceAccount %s in namespace %s, or set --namespace",
			got, want, p.UserAgent, common.Namespace)
	}
	installation := policy.Installation{Namespace: common.Namespace, Default: common.Default, Extensions: p.Extensions, Packages: p.Packages}
	if err := policy.Check(ctx, c, installation); err != nil {
		return fmt.Errorf("the admission policies of this cluster do not limit user %q as this version requires; apply the manifests of this version, for namespace %s%s:\n%w",
			want, common.Namespace, p.alsoPass(), err)
	}
	return nil
}

// alsoPass returns the part of CheckPolicies' error that is about the default account. It is empty for programs that have none.
func (p Program) alsoPass() string {
	if p.Extensions || p.Packages {
		return ""
	}
	return ", and pass both programs the default account that the manifests name"
}

// CheckRemovals returns an error unless the admission policy of this installation limits the identity remit-remover (docs/adr/0075).
func (c Common) CheckRemovals(ctx context.Context, reader client.Reader) error {
	return policy.Check(ctx, reader, policy.Installation{Namespace: c.Namespace, Removals: true})
}
