package mutants

// sealed returns the mutants of the rule that users of a target cannot bind an operator's Role while Remit creates it.
func sealed() []Mutant {
	const (
		unconfirmed = "TestRulesThatWereNotConfirmedAreRemoved"
		bound       = "TestABindingOfASealedRoleIsFound"
	)
	return []Mutant{
		{
			Name: "many-bindings-change-beside-a-role-that-is-not-sealed", Rule: 1, File: "pkg/step/execute/list.go",
			Old:    "		unseen = maxUnseenFew\n",
			New:    "		unseen = maxUnseen\n",
			Killer: unit("pkg/step/execute", "TestFewBindingsMayChangeBesideARoleThatCannotBeSealed"),
		},
		{
			Name: "only-the-account-removes-what-was-not-confirmed", Rule: 1, File: "pkg/controller/csv/prepare.go",
			Old:    "	return due, r.withdraw(ctx, s, due)",
			New:    "	return due, nil",
			Killer: unit("pkg/controller/csv", "TestTheRulesOfARoleThatWasNotConfirmedAreRemovedByOthers"),
		},
		{
			Name: "only-an-excess-permits-removing-what-was-not-confirmed", Rule: 1, File: "pkg/install/warrant/warrant.go",
			Old:    "case d == Shrink && !f.Exceeds && !f.Unconfirmed:",
			New:    "case d == Shrink && !f.Exceeds:",
			Killer: unit("pkg/controller/csv", "TestTheRulesOfARoleThatWasNotConfirmedAreRemovedByOthers"),
		},
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
			Old:    "	if !apierrors.IsForbidden(err) {",
			New:    "	if !apierrors.IsForbidden(err) || sealed == nil {",
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
			Old:    "return cmp.Or(sealed, live), true, r.judgeLive",
			New:    "return cmp.Or(sealed, live), sealed != nil, r.judgeLive",
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
			Old:    "	ctx = context.WithoutCancel(ctx)",
			New:    "	_ = context.WithoutCancel(ctx)",
			Killer: unit("pkg/step/execute", unconfirmed),
		},
		{
			Name: "field-managers-keep-the-rules", Rule: 7, File: "pkg/step/execute/confirm.go",
			Old:    "	if err = Empty(ctx, c, live); err == nil {",
			New:    "	if err = ctx.Err(); err == nil {",
			Killer: unit("pkg/step/execute", unconfirmed),
		},
		{
			Name: "rules-remain-in-a-created-role", Rule: 7, File: "pkg/step/execute/confirm.go",
			Old:    "		live, err = apply.LiveContent(ctx, c, role)\n",
			New:    "		return true, nil\n",
			Killer: unit("pkg/step/execute", unconfirmed),
		},
		{
			Name: "the-list-takes-the-time-of-the-removal", Rule: 7, File: "pkg/step/execute/confirm.go",
			Old:    "	ctx = context.WithoutCancel(ctx)\n",
			New:    "	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)\n	defer cancel()\n",
			Killer: unit("pkg/step/execute", "TestTheRemovalOfRulesHasItsOwnTime"),
		},
		{
			Name: "rules-are-removed-without-pauses", Rule: 7, File: "pkg/step/execute/confirm.go",
			Old:    "		if n > 0 {",
			New:    "		if n > maxRevocations {",
			Killer: unit("pkg/step/execute", "TestTheRemovalOfRulesHasItsOwnTime"),
		},
		{
			Name: "unconfirmed-roles-are-not-checked-again", Rule: 7, File: "pkg/step/execute/awaited.go",
			Old:    "live != nil && pending.has(live) {",
			New:    "live == nil && pending.has(live) {",
			Killer: unit("pkg/step/execute", "TestARoleThatKeepsItsRulesIsConfirmedLater"),
		},
		{
			Name: "roles-stored-later-are-not-confirmed", Rule: 7, File: "pkg/step/execute/confirm.go",
			Old:    "			return false, err\n		}\n		if r.Owner",
			New:    "			return err == nil, err\n		}\n		if r.Owner",
			Killer: unit("pkg/step/execute", "TestARoleThatIsStoredLaterIsConfirmed"),
		},
		{
			Name: "roles-of-others-are-emptied", Rule: 7, File: "pkg/step/execute/confirm.go",
			Old:    "		if r.Owner.Check(live) != nil && !sameRules(live, role) {",
			New:    "		if r.Owner.Check(live) != nil && live.GetName() == \"\" {",
			Killer: unit("pkg/step/execute", "TestRulesOfAnotherUsersRoleAreNotRemoved"),
		},
		{
			Name: "rules-that-were-not-written-remain", File: "pkg/step/execute/confirm.go",
			Old:    "	case r.hasNoRules(ctx, c, role):",
			New:    "	case !r.hasNoRules(ctx, c, role) && live == nil:",
			Killer: unit("pkg/step/execute", "TestRulesThatWereNotWrittenNeedNotBeRemoved"),
		},
		{
			Name: "managed-fields-keep-the-rules", Rule: 7, File: "pkg/lib/apply/live.go",
			Old:    "	delete(metadata, \"managedFields\")",
			New:    "	delete(metadata, \"\")",
			Killer: unit("pkg/lib/apply", "TestManagedFieldsNeedNotBeDecoded"),
		},
		{
			Name: "a-replaced-object-is-overwritten", Rule: 7, File: "pkg/lib/apply/apply.go",
			Old:    "	want.SetUID(live.GetUID())\n	return send(ctx, c, want)",
			New:    "	return send(ctx, c, want)",
			Killer: unit("pkg/lib/apply", "TestOverwritesOnlyTheSameObject"),
		},
	}
}
