package escape

// optIns returns rows about what no permission allows: ADR 0021 decides against an opt-in. Row 140m is about OperatorGroups.
func optIns() []row {
	return []row{
		{number: "360", title: "a mutating webhook on Namespaces, in a ClusterExtension whose identity is cluster-admin", play: func(s *scene) {
			x := s.extension("own", bundleOf(hooked(csv(), intercepts("Mutating", intercepting("", "namespaces", "CREATE, UPDATE")))))
			x.install(allPowerful())
			x.refused(`may not intercept "namespaces"`, "No permission allows this", "--default-account-namespaces")
			s.uncalled()
		}},
	}
}
