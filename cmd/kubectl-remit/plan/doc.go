// Package plan is "kubectl remit plan": it shows what an InstallPlan writes, permissions first, to whoever approves it. The
// content is read from the plan itself, which may have been edited since: what the plan's name does not commit to is not shown.
package plan
