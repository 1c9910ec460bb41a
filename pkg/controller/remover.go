package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// remover returns the function that opens a client of the ServiceAccount remit-remover in Remit's namespace. Remit uses it only if
// it is enrolled and check, which compares the policy that limits the ServiceAccount with the one that Remit requires, returns nil.
func (s shared) remover(live client.Reader, namespace string, check func(context.Context, client.Reader) error) excess.Remover {
	if check == nil {
		return nil
	}
	key := types.NamespacedName{Namespace: namespace, Name: names.ServiceAccountRemover}
	return func(ctx context.Context, listers rbac.Listers) (client.Client, error) {
		account := scoped.Account{Namespace: key.Namespace, Name: key.Name}
		if err := s.enrollment.Own(listers, account); err != nil {
			return nil, err
		}
		sa := &corev1.ServiceAccount{}
		err := live.Get(ctx, key, sa)
		if apierrors.IsNotFound(err) {
			return nil, &scoped.Error{Reason: scoped.AccountMissing, Namespace: namespace, Message: fmt.Sprintf("ServiceAccount %s does not exist", key)}
		}
		if err != nil {
			return nil, fmt.Errorf("get ServiceAccount %s: %w", key, err)
		}
		if err := check(ctx, live); err != nil {
			return nil, &scoped.Error{Reason: scoped.AccountUnlimited, Namespace: namespace, Message: fmt.Sprintf(
				"ServiceAccount %s is not used, because the cluster does not limit it as this version requires; apply manifests/remover of this version: %v", key, err)}
		}
		account.UID = sa.UID
		return s.accounts.For(ctx, account)
	}
}
