package clusterextension

import (
	"cmp"
	"slices"

	olmv1 "github.com/remit-olm/remit/api/v1"
)

// setInventory lists the objects of the install in the status. While a version is being rolled out, the list includes those
// of the earlier version.
func (s *run) setInventory(keepOthers bool) {
	var out []olmv1.InventoryObject
	if keepOthers {
		out = append(out, s.ext.Status.Inventory...)
	}
	for _, st := range s.steps {
		gvk := st.Object.GroupVersionKind()
		out = append(out, olmv1.InventoryObject{Group: gvk.Group, Kind: gvk.Kind, Namespace: st.Object.GetNamespace(), Name: st.Object.GetName()})
	}
	slices.SortFunc(out, func(a, b olmv1.InventoryObject) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	out = slices.Compact(out)
	s.ext.Status.Inventory = out[:min(len(out), olmv1.MaxInventory)]
}
