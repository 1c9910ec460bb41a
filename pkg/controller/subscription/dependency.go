package subscription

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
)

// ensureSubscription creates the Subscription for a dependency as the controller identity. This grants no permissions,
// because the account writes the objects of the install. If the Subscription already exists, there is no conflict,
// because its name identifies the dependency.
func (r *Reconciler) ensureSubscription(ctx context.Context, w *world, c resolver.Choice) error {
	if len(c.NeededBy) == 0 {
		return fmt.Errorf("no Subscription needs the dependency %s", c.Bundle)
	}
	sub := desiredSubscription(w, c)
	err := r.Client.Create(ctx, sub)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("create Subscription %s: %w", sub.Name, err)
	}
	log.FromContext(ctx).Info("Created Subscription for a dependency", "Subscription", client.ObjectKeyFromObject(sub).String(), "bundle", c.Bundle)
	return nil
}

// desiredSubscription returns the Subscription for a dependency, with the name that the contract defines. It
// requires approval if any Subscription that needs the dependency requires approval.
func desiredSubscription(w *world, c resolver.Choice) *operatorsv1alpha1.Subscription {
	return &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{
			Name: generatedName(w, c), Namespace: w.namespace,
			Labels:      map[string]string{ownerutil.Lineage{Package: c.Package, Namespace: w.namespace}.ComponentLabel(): ""},
			Annotations: map[string]string{names.AnnotationGeneratedBy: c.NeededBy[0].Name},
		},
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: c.Catalog.Name, CatalogSourceNamespace: c.Catalog.Namespace,
			Package: c.Package, Channel: c.Channel, StartingCSV: c.Bundle,
			InstallPlanApproval: strictest(c.NeededBy),
		},
	}
}

// generatedName returns <package>-<channel>-<catalog>-<namespace of the catalog>. If this is not a valid name, or
// another Subscription already has it, generatedName shortens the name and appends a hash that also depends on the
// version.
func generatedName(w *world, c resolver.Choice) string {
	name := strings.Join([]string{c.Package, c.Channel, c.Catalog.Name, c.Catalog.Namespace}, "-")
	taken := slices.ContainsFunc(w.subscriptions, func(sub operatorsv1alpha1.Subscription) bool { return sub.Name == name })
	if !taken && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	hash := ownerutil.Hash(name, c.Bundle)
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return strings.Trim(safe[:min(len(safe), maxGenerated)], "-") + "-" + hash
}

// maxGenerated is the maximum length of a generated name without its hash. It leaves room for the hash in a name of at
// most 253 bytes.
const maxGenerated = 200

// strictest returns Manual if any of the Subscriptions requires approval, and Automatic otherwise.
func strictest(subs []*operatorsv1alpha1.Subscription) operatorsv1alpha1.Approval {
	for _, sub := range subs {
		if sub.GetInstallPlanApproval() == operatorsv1alpha1.ApprovalManual {
			return operatorsv1alpha1.ApprovalManual
		}
	}
	return operatorsv1alpha1.ApprovalAutomatic
}
