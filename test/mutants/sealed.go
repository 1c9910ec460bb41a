package mutants

// sealed returns the mutants of the rule that users of a target cannot bind an operator's Role while Remit creates it.
func sealed() []Mutant {
	const (
		unconfirmed = "TestRulesThatWereNotConfirmedAreRemoved"
		bound       = "TestABindingOfASealedRoleIsFound"
	)
	return []Mutant{
		{
			Name: "new-roles-in-targets-are-not-sealed", Rule: 7, File: "pkg/step/execute/seal.go",
			Old:    "	if role.GetNamespace() != r.Owner.Namespace {",
			New:    "	if role.GetNamespace() == \"\" {",
			Killer: unit("pkg/step/execute", "TestABindingInATargetPrecedesNoRole"),
		},
		{
			Name: "names-are-not-sealed", Rule: 7, File: "pkg/step/execute/seal.go",
			Old:    "		rule[\"resourceNames\"] = []any{absent}\n		return rule[\"nonResourceURLs\"] == nil",
			New:    "		if rule[\"resourceNames\"] != nil {\n			return false\n		}\n		rule[\"resourceNames\"] = []any{absent}\n		return rule[\"nonResourceURLs\"] == nil",
			Killer: unit("pkg/step/execute", "TestARoleWithForeignBindingsIsNotFilled"),
		},
		{
			Name: "accounts-with-names-write-no-roles", Rule: 7, File: "pkg/step/execute/seal.go",
			Old:    "	if apierrors.IsForbidden(err) {",
			New:    "	if apierrors.IsForbidden(err) && sealed != nil {",
			Killer: unit("pkg/step/execute", bound),
		},
		{
			Name: "sealed-roles-are-not-confirmed", Rule: 7, File: "pkg/step/execute/awaited.go",
			Old:    "	if exposed {",
			New:    "	if exposed && err != nil {",
			Killer: unit("pkg/step/execute", bound),
		},
		{
			Name: "roles-without-a-seal-are-not-confirmed", Rule: 7, File: "pkg/step/execute/seal.go",
			Old:    "		return live, true, err\n",
			New:    "		return live, false, err\n",
			Killer: unit("pkg/step/execute", "TestABindingOfARoleThatCannotBeSealedIsFound"),
		},
		{
			Name: "uncertain-writes-are-not-confirmed", Rule: 7, File: "pkg/step/execute/confirm.go",
			Old:    "	return w.err != nil && (",
			New:    "	return w.err == nil && (",
			Killer: unit("pkg/step/execute", unconfirmed),
		},
		{
			Name: "rules-remain-when-the-program-stops", Rule: 7, File: "pkg/step/execute/confirm.go",
			Old:    "context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)",
			New:    "context.WithTimeout(ctx, confirmTimeout)",
			Killer: unit("pkg/step/execute", unconfirmed),
		},
		{
			Name: "field-managers-keep-the-rules", Rule: 7, File: "pkg/step/execute/confirm.go",
			Old:    "	if err = empty(ctx, c, live); err == nil {",
			New:    "	if err = ctx.Err(); err == nil {",
			Killer: unit("pkg/step/execute", unconfirmed),
		},
		{
			Name: "rules-remain-in-a-created-role", Rule: 7, File: "pkg/step/execute/confirm.go",
			Old:    "	if live == nil {\n		if live,",
			New:    "	if live == nil {\n		return nil\n	}\n	if live == nil {\n		if live,",
			Killer: unit("pkg/step/execute", unconfirmed),
		},
		{
			Name: "a-replaced-object-is-overwritten", Rule: 7, File: "pkg/lib/apply/apply.go",
			Old:    "	want.SetUID(live.GetUID())\n	return send(ctx, c, want)",
			New:    "	return send(ctx, c, want)",
			Killer: unit("pkg/lib/apply", "TestOverwritesOnlyTheSameObject"),
		},
	}
}
