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
	s.ext.Status.Inventory = limitInventory(out)
}

// limitInventory returns at most olmv1.MaxInventory objects, sorted and without duplicates. If there are more, it
// prefers Deployments, webhooks and APIServices, because they must be removed before a conversion is reset.
func limitInventory(all []olmv1.InventoryObject) []olmv1.InventoryObject {
	slices.SortFunc(all, compareInventory)
	all = slices.Compact(all)
	if len(all) <= olmv1.MaxInventory {
		return all
	}
	slices.SortStableFunc(all, func(a, b olmv1.InventoryObject) int { return cmp.Compare(inventoryRank(a), inventoryRank(b)) })
	all = all[:olmv1.MaxInventory]
	slices.SortFunc(all, compareInventory)
	return all
}

func compareInventory(a, b olmv1.InventoryObject) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// inventoryRank ranks objects by the importance of their removal; 0 is the most important.
func inventoryRank(o olmv1.InventoryObject) int {
	switch o.Kind {
	case "Deployment":
		return 0
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService":
		return 1
	}
	return 2
}
