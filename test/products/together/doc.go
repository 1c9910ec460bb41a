// Package together runs Remit's programs and writes everything at the same time whose sizes are multiplied (docs/adr/0066). It checks
// that each program stays far below the memory limit in the manifests, and measures how long the installs of others take meanwhile.
package together
