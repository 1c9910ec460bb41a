package mutants

// prechecks returns the mutants of the guards that look at objects before they are written, and at their statuses afterward.
func prechecks() []Mutant {
	return []Mutant{
		{
			Name: "a-status-from-before-the-write-is-evidence", File: "pkg/controller/clusterextension/probe.go",
			Old:    "case live != nil && isProbed(obj) && s.isOutdated(live, obj):",
			New:    "case live != nil && isProbed(obj) && s.isOutdated(live, obj) && ctx == nil:",
			Killer: unit("pkg/controller/clusterextension", "TestAStatusFromBeforeTheWriteIsNoEvidence"),
		},
	}
}
