package catalogsource

import (
	"context"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// record sets the condition that records the account of the namespace's OperatorGroup: while there is none, the policy
// remit-csv-author-check reads from its message who may change the spec (docs/adr/0090). The authors of global catalogs act for the whole
// cluster.
func (r *Reconciler) record(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, st *operatorsv1alpha1.CatalogSourceStatus, now metav1.Time) error {
	if cs.Namespace == r.GlobalNamespace {
		return nil
	}
	accounts, err := r.Default.Lookup(r.Client).Named(ctx, cs.Namespace)
	if err != nil {
		return fmt.Errorf("determine the account of CatalogSource %s: %w", client.ObjectKeyFromObject(cs), err)
	}
	if account := scoped.ToRecord(accounts, recordedAccount(&cs.Status)); account != "" {
		meta.SetStatusCondition(&st.Conditions, metav1.Condition{
			Type: names.ConditionAuthorUnchecked, Status: metav1.ConditionFalse, Reason: "AccountKnown", LastTransitionTime: now, Message: status.Text(oneLine(fmt.Sprintf(
				"ServiceAccount %s installs what this CatalogSource offers: whoever changes the spec must be allowed to impersonate it", account))),
		})
	}
	return nil
}

// recordedAccount returns the account that a status records, or "".
func recordedAccount(st *operatorsv1alpha1.CatalogSourceStatus) string {
	c := meta.FindStatusCondition(st.Conditions, names.ConditionAuthorUnchecked)
	if c == nil {
		return ""
	}
	_, rest, _ := strings.Cut(c.Message, " ")
	account, _, _ := strings.Cut(rest, " ")
	return account
}

// ofGroup returns the CatalogSources in the namespace of an OperatorGroup.
func (r *Reconciler) ofGroup(ctx context.Context, og client.Object) []reconcile.Request {
	if og.GetNamespace() == r.GlobalNamespace {
		return nil
	}
	return r.all(ctx, og.GetNamespace())
}
