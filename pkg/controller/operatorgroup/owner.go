package operatorgroup

import (
	"errors"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// owner identifies the OperatorGroup to which a ClusterRole belongs. It implements apply.Owner.
type owner struct {
	key client.ObjectKey
	// since is the creation time of the OperatorGroup's namespace: an earlier namespace with this name owned older objects.
	since  time.Time
	proofs ownerutil.Proofs
}

// mark returns the value of the lineage label. It has four parts, so that it differs from the marks of all lineages.
func (o owner) mark() string {
	return ownerutil.Commitment("operatorgroup", o.key.Namespace, o.key.Name, "")
}

// Check implements apply.Owner.
func (o owner) Check(live client.Object) error {
	mark := live.GetLabels()[names.LabelLineage]
	if !ownerutil.IsMark(mark, o.mark()) {
		return errors.New("it was not created for OperatorGroup " + o.key.String())
	}
	return o.proofs.CheckSince(live, mark, o.since)
}

// Prove implements apply.Owner.
func (o owner) Prove(desired, live *unstructured.Unstructured) error {
	return o.proofs.Sign(desired, o.mark(), live)
}

// labels returns the owner labels of the contract, and the mark.
func (o owner) labels() map[string]string {
	return map[string]string{
		names.LabelManaged:        "true",
		names.LabelOwner:          ownerutil.LabelValue(o.key.Name),
		names.LabelOwnerNamespace: o.key.Namespace,
		names.LabelOwnerKind:      operatorsv1.OperatorGroupKind,
		names.LabelLineage:        o.mark(),
	}
}

// own adds the owner to a ClusterRole. The garbage collector deletes it with the namespace of the OperatorGroup.
func (o owner) own(role *rbacv1.ClusterRole, namespace *corev1.Namespace) (*unstructured.Unstructured, error) {
	role.Labels = o.labels()
	role.OwnerReferences = []metav1.OwnerReference{ownerutil.NamespaceReference(namespace.Name, namespace.UID)}
	return apply.Object(role)
}
