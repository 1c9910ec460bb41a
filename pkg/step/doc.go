// Package step defines a step of an InstallPlan: the desired state of one object, how it is displayed, and its
// position in the plan. Package build creates steps from bundles; package execute applies them as an account.
package step
