package apply

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// remedyFor describes what a user can do about a live object that the owner must not change. It names only labels that the object
// has, and never suggests deleting a CustomResourceDefinition, because this also deletes all of its custom resources.
func remedyFor(live client.Object) string {
	operator, labels := "", live.GetLabels()
	switch {
	case labels[names.LabelOwner] != "" && labels[names.LabelOwnerNamespace] != "":
		operator = fmt.Sprintf("the operator that its labels %s and %s identify", names.LabelOwner, names.LabelOwnerNamespace)
	case labels[names.LabelExtensionName] != "":
		operator = fmt.Sprintf("the ClusterExtension that its label %s identifies", names.LabelExtensionName)
	}
	switch isCRD := KindOf(live) == "CustomResourceDefinition"; {
	case isCRD && operator == "":
		return "its custom resources would be deleted with it, so keep it, and find out what else installed it"
	case isCRD:
		return "its custom resources would be deleted with it, so keep it, and use " + operator
	case operator == "":
		return "delete it if nothing else needs it"
	}
	return "delete it if nothing else needs it, or uninstall " + operator
}
