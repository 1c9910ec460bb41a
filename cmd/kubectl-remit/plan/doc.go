// Package plan implements "kubectl remit plan", which shows what an InstallPlan writes, permissions first, to the user
// who approves it. It reads the content from the plan, which may have been edited, and shows only content that the
// plan's name commits to.
package plan
