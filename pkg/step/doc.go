// Package step is one object of an InstallPlan: what is to be applied, how it is shown, and the order
// of a plan. Package build makes steps from bundles; package execute applies them as an account.
package step
