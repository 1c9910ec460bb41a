package mutants

// remover returns the mutants of the guards that limit the optional identity for removals.
func remover() []Mutant {
	const policy = "manifests/remover/policy/removals.yaml"
	return []Mutant{
		{
			Name: "removals-need-no-proof", Rule: 4, File: policy,
			Old:    ".matches('^v1[.][^.]+[.][0-9]+[.][A-Za-z0-9_-]{43}$')",
			New:    ".matches('')",
			Killer: row("315"),
		},
		{
			Name: "removals-need-no-owner", Rule: 4, File: policy,
			Old:    "variables.labels[?'remit.dev/lineage'].orValue('') != ''\n      && (",
			New:    "true || (",
			Killer: row("315"),
		},
		{
			Name: "removals-of-other-versions", Rule: 4, File: policy,
			Old:    "request.options.?preconditions.?uid.orValue('') == oldObject.metadata.uid\n      && ",
			New:    "true || ",
			Killer: row("315"),
		},
		{
			Name: "the-remover-writes", Rule: 4, File: policy,
			Old:    "- expression: request.operation == 'DELETE'\n",
			New:    "- expression: 'true'\n",
			Killer: row("316"),
		},
		{
			Name: "the-remover-is-not-limited", Rule: 4, File: "pkg/controller/remover.go",
			Old:    "if err := check(ctx, live); err != nil {",
			New:    "if err := check(ctx, live); err != nil && live == nil {",
			Killer: row("312"),
		},
	}
}
