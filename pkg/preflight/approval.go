package preflight

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// HowToApprove says how people see what an InstallPlan writes, and how they approve it.
func HowToApprove(plan types.NamespacedName) string {
	return fmt.Sprintf("InstallPlan %s waits for approval.\n"+
		"To see what it writes: kubectl remit plan show %[3]s -n %[2]s\n"+
		`To approve it: kubectl patch installplan %[3]s -n %[2]s --type merge --patch '{"spec":{"approved":true}}'`, plan, plan.Namespace, plan.Name)
}
