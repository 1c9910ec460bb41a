package adopt

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// others lists objects of the namespace's operators that are not adopted. Remit creates its own InstallPlans, and does
// not change the copies of ClusterServiceVersions that OLM created.
func (w *world) others(p *plan) {
	for i := range w.plans[p.namespace] {
		ip := &w.plans[p.namespace][i]
		switch ip.Status.Phase {
		case operatorsv1alpha1.InstallPlanPhaseComplete, operatorsv1alpha1.InstallPlanPhaseFailed:
			p.add(ip, Left, "", "it is finished")
		case operatorsv1alpha1.InstallPlanPhaseRequiresApproval:
			p.add(ip, Left, "", "it is waiting for approval in OLM; Remit creates its own plan, which also requires approval, so delete this one")
		default:
			p.add(ip, Refused, "", fmt.Sprintf("its phase is %q; let OLM complete it, or delete it", ip.Status.Phase))
		}
	}
	for i := range w.subscriptions[p.namespace] {
		sub := &w.subscriptions[p.namespace][i]
		p.add(sub, Left, sub.Status.InstalledCSV, "Remit uses it without changes")
	}
	for i := range w.copies[p.namespace] {
		copied := &w.copies[p.namespace][i]
		copied.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
		p.add(copied, Left, copied.Name, "it is a copy that OLM created and Remit does not update; delete it unless you plan to return to OLM")
	}
	for i := range p.catalogs {
		p.add(&p.catalogs[i], Left, "", "Remit uses it without changes, and does not need the Pod that OLM created for it")
	}
}
