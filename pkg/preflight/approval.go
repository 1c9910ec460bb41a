package preflight

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// HowToApprove returns a message with the commands that show what an InstallPlan writes and that approve the plan.
func HowToApprove(plan types.NamespacedName) message.Text {
	return message.Sprintf("InstallPlan %s is waiting for approval.\nTo see what it writes: %s\nTo approve it: %s", plan, ShowCommand(plan), ApproveCommand(plan))
}

// ShowCommand returns the command that shows what an InstallPlan writes.
func ShowCommand(plan types.NamespacedName) string {
	return fmt.Sprintf("kubectl remit plan show %s -n %s", apply.ShellWord(plan.Name), plan.Namespace)
}

// ApproveCommand returns the command that approves an InstallPlan.
func ApproveCommand(plan types.NamespacedName) string {
	return fmt.Sprintf(`kubectl patch installplan %s -n %s --type merge --patch '{"spec":{"approved":true}}'`, apply.ShellWord(plan.Name), plan.Namespace)
}
