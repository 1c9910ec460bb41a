// Package step defines one object of an InstallPlan: its desired state, how it is displayed, and its position in the
// plan. Package build creates steps from bundles; package execute applies them as an account.
package step
