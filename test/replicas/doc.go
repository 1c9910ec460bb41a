// Package replicas tests that Remit installs, upgrades and removes many operators while replicas of its programs are killed:
// every few seconds, the test sends SIGKILL to a replica and restarts it. Everything must converge, nothing may be created twice,
// and nothing may remain in the end. Package kill tests single programs at chosen requests.
package replicas
