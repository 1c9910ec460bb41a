package mutants

// adopt returns the mutants of "kubectl remit adopt", which adds Remit's proof to objects that OLM installed.
func adopt() []Mutant {
	const (
		command    = "cmd/kubectl-remit/adopt"
		inside     = "TestJudgesObjectsInTheNamespace"
		outside    = "TestJudgesObjectsOutsideTheNamespace"
		binding    = "TestABindingIsAdoptedOnlyIfTheVersionRequiresIt"
		definition = "TestADefinitionIsAdoptedOnlyIfNoOtherVersionInstalledIt"
		retry      = "TestRetriesOnlyIfTheVerdictIsTheSame"
		elsewhere  = "TestWhatCannotBeSignedElsewhereIsLeft"
		full       = "TestObjectsElsewhereDoNotFillTheRecord"
		shares     = "TestSharesTheRecordBetweenNamespaces"
		skipped    = "TestUndoSkipsWhatCannotBeRestoredElsewhere"
	)
	in := func(file, name, old, changed, test string) Mutant {
		return Mutant{Name: "adopt-" + name, Rule: 7, File: command + "/" + file, Old: old, New: changed, Killer: unit(command, test)}
	}
	return []Mutant{
		in("object.go", "owner-by-name", "return in.csv.UID == ref.UID", "return in.csv.Name == ref.Name", inside),
		in("object.go", "owner-with-another-name", "case j.installs[i].csv.Name != ref.Name:", `case ref.Name == "":`, inside),
		in("object.go", "owner-of-any-group", `strings.HasPrefix(ref.APIVersion, operatorsv1alpha1.GroupName+"/")`, `ref.APIVersion != ""`, inside),
		in("object.go", "second-owner", "	case others > 0:", "	case others > 1:", inside),
		in("object.go", "second-version-owns", "case found != nil && found != j.installs[i]:", "case found != nil && i < 0:", inside),
		in("object.go", "label-contradicts-owner", `labels[names.LabelOwner] != "" && labels[names.LabelOwner] != ownerutil`, `labels[names.LabelOwner] == "" && labels[names.LabelOwner] != ownerutil`, inside),
		in("object.go", "labels-replace-the-owner", "		case obj.GetNamespace() == j.plan.namespace:\n", `		case obj.GetNamespace() == "":`+"\n", inside),
		in("object.go", "required-objects-are-left", "		if obj.GetNamespace() == p.namespace {", `		if obj.GetNamespace() == "" {`, inside),
		in("judge.go", "objects-of-other-installs", `	case mark != "" && !owner.IsMark(mark):`, `	case mark == "-" && !owner.IsMark(mark):`, inside),

		in("object.go", "namespaces-that-are-no-targets", "		case !isInReach(obj, in):", `		case !isInReach(obj, in) && obj.GetName() == "":`, outside),
		in("object.go", "labels-of-another-namespace", "|| labels[names.LabelOwnerNamespace] != j.plan.namespace {", "{", outside),
		in("object.go", "cluster-scoped-objects-with-an-owner", "len(obj.GetOwnerReferences()) > 0 && !isNamespaceOnly(obj)", "len(obj.GetOwnerReferences()) > 2 && !isNamespaceOnly(obj)", outside),
		in("object.go", "strangers-prevent-an-adoption", "		if obj.GetNamespace() == p.namespace {", "		if p.namespace != \"\" {", outside),
		in("judge.go", "objects-of-an-earlier-namespace", "	case isOutside && obj", "	case !isOutside && obj", outside),

		in("object.go", "subjects-in-other-namespaces", " || subject.Namespace != b.install.csv.Namespace {", " {", binding),
		in("object.go", "subjects-of-other-kinds", "		if subject.Kind != rbacv1.ServiceAccountKind || ", "		if ", binding),
		in("object.go", "aggregated-clusterroles", "		if role.AggregationRule == nil {", `		if role.Name != "" {`, binding),
		in("object.go", "bindings-of-roles-of-others", "	if !known {", "	if !known && role.name == \"\" {", binding),
		in("object.go", "roles-of-other-namespaces", "		key.namespace = binding.GetNamespace()", "		key.namespace = \"target\"", binding),
		in("object.go", "bindings-of-roles-that-are-left", "		if j.plan.sign(obj, in, in.owner.Labels()) {", "		if j.plan.sign(obj, in, in.owner.Labels()) || in != nil {", binding),
		in("object.go", "excess-permissions", "len(more) > 0 {", "len(more) > 9 {", binding),
		in("object.go", "permissions-of-other-accounts", "g.ServiceAccount == subject.Name && (", "(", binding),
		in("object.go", "namespaced-permissions-in-the-cluster", "(g.Namespace == b.binding.GetNamespace() || g.Namespace == rbac.ClusterScope)", `(g.Namespace != "-")`, binding),
		in("object.go", "certificates-in-other-namespaces", "		if b.binding.GetNamespace() == b.install.csv.Namespace {", `		if b.binding.GetNamespace() != "" {`, binding),

		in("object.go", "definition-of-another-version", "return c.Name == name }) {", `return c.Name == name && namespace == "" }) {`, definition),
		in("object.go", "definition-without-an-annotation", "	if !named {", `	if !named && obj.GetName() == "" {`, definition),
		in("object.go", "definition-of-a-version-elsewhere", "if namespace == in.csv.Namespace && name == in.csv.Name {", "if name == in.csv.Name {", definition),

		in("judge.go", "versions-that-are-not-installed", "	case phase != operatorsv1alpha1.CSVPhaseSucceeded:", `	case phase == "":`, "TestJudgesVersionsAndPlans"),
		in("others.go", "plans-that-are-in-progress", `			p.add(ip, Refused, "",`, `			p.add(ip, Left, "",`, "TestJudgesVersionsAndPlans"),
		in("judge.go", "two-groups", "	case len(groups) != 1:", "	case len(groups) == 0:", "TestRefusesNamespaces"),
		in("judge.go", "deployments-without-an-owner", "			if !j.isListed(", "			if live != nil && !j.isListed(", "TestRefusesNamespaces"),
		in("judge.go", "fields-of-olm-stay", "owner.Owns(obj) && !isForeign(obj, owner)", "owner.Owns(obj)", "TestKnowsWhatIsAdopted"),

		in("sign.go", "refused-namespaces", "len(p.report.Refused) > 0 || ", "", "TestANamespaceThatIsRefusedIsNotWritten"),
		in("sign.go", "before-the-namespace-is-left-to-olm", "s.manage(ctx, managed, names.ManagedByOLM)", `s.manage(ctx, managed, "")`, "TestANamespaceIsLeftToOLMUntilEverythingIsSigned"),
		in("sign.go", "objects-that-were-changed", `metadata["uid"], metadata["resourceVersion"] = obj.GetUID(), obj.GetResourceVersion()`, `metadata["uid"] = obj.GetUID()`, "TestAnObjectThatWasReplacedOrChangedIsNotSigned"),
		in("sign.go", "objects-that-were-replaced", `metadata["uid"], metadata["resourceVersion"] = obj.GetUID(), obj.GetResourceVersion()`, `metadata["resourceVersion"] = obj.GetResourceVersion()`, "TestEveryPatchNamesWhatWasRead"),
		in("sign.go", "groups-that-were-replaced", "			live.SetUID(obj.GetUID()) // a precondition\n", "", "TestEveryPatchNamesWhatWasRead"),
		in("sign.go", "proofs-for-later-objects", "	live.SetCreationTimestamp(g.object.GetCreationTimestamp())\n", "", "TestAProofDoesNotFitAnotherObject"),
		in("sign.go", "retry-after-a-change", "live.Generation == g.object.GetGeneration() &&", "live.Generation >= g.object.GetGeneration() &&", retry),
		in("sign.go", "retry-without-a-generation", "live.Generation > 0 && ", "", retry),
		in("sign.go", "retry-with-other-labels", "maps.Equal(live.Labels, g.object.GetLabels()) &&", "live.Labels != nil &&", retry),
		in("sign.go", "retry-with-other-annotations", "maps.Equal(alongside(live), alongside(g.object))", "live.Annotations != nil", retry),
		in("sign.go", "retry-with-another-object", "live.UID != g.object.GetUID() || ", "", retry),
		in("outside.go", "objects-elsewhere-stop-the-adoption", "		case !p.isOutside(g.object) || !preflight.IsAboutObject(err):", `		case g.object.GetName() != "" || !preflight.IsAboutObject(err):`, elsewhere),
		in("outside.go", "objects-that-are-needed-are-left", "		case !p.isOutside(g.object) || !preflight.IsAboutObject(err):", "		case !preflight.IsAboutObject(err):", elsewhere),
		in("outside.go", "failed-connections-are-answers", "		case !p.isOutside(g.object) || !preflight.IsAboutObject(err):", "		case !p.isOutside(g.object) || preflight.IsAboutObject(nil):", elsewhere),
		in("outside.go", "bindings-of-roles-that-could-not-be-signed", "isBinding(g.object) && p.leftRoles[boundRole(g.object)]", "p.leftRoles[roleKey{}]", elsewhere),
		in("outside.go", "objects-elsewhere-fill-the-record", "		case !p.isOutside(p.signs[i].object):\n", `		case p.signs[i].object.GetName() != "":`+"\n", full),
		in("outside.go", "objects-that-are-not-recorded-are-signed", "	g.left = true\n", "", full),
		in("outside.go", "one-namespace-takes-the-record", "			left = append(left, e)\n			continue\n", "			left = append(left, e)\n			break\n", shares),
		in("outside.go", "the-record-cannot-be-read", "		if size > maxOutsideContent {", "		if size < 0 {", shares),
		in("outside.go", "repeated-runs-fill-the-record", "slices.Clip(known), 0", "slices.Clip(known[:0]), 0", shares),
		in("undo.go", "objects-elsewhere-stop-the-reversal", "r.Namespace != namespace && preflight.IsAboutObject(err)", `r.Namespace == "-" && preflight.IsAboutObject(err)`, skipped),
		in("undo.go", "undo-of-what-was-not-adopted", " || r.isUntouched(live) {", " {", skipped),
		in("object.go", "deployments-of-strangers", "ok && d.Namespace == j.plan.namespace {", "ok {", "TestADeploymentElsewhereDoesNotTakeThePlaceOfTheOperators"),
		in("record.go", "second-record", "	if !r.has(obj) {", `	if !r.has(obj) || obj.UID != "" {`, "TestOnlyTheFirstRecordDescribesTheObjectBeforeTheAdoption"),
		in("undo.go", "undo-of-another-object", "	case live.UID != r.UID:", `	case live.UID == "":`, "TestUndoRestoresOnlyWhatTheAdoptionChanged"),
		in("undo.go", "undo-of-later-changes", "exists := live.Labels[k]; c.is(now, exists) && !c", "exists := live.Labels[k]; !c", "TestUndoRestoresOnlyWhatTheAdoptionChanged"),
		in("undo.go", "undo-before-olm-manages", "s.manage(ctx, managers, names.ManagedByOLM)", `s.manage(ctx, managers[:0], names.ManagedByOLM)`, "TestUndoRestoresOnlyWhatTheAdoptionChanged"),
		{
			Name: "kinds-that-are-used-by-now-are-deleted", Rule: 7, File: "cmd/kubectl-remit/uninstall/remove.go",
			Old:    "	if len(i.refusals) == 0 {",
			New:    "	if o.CRDs {",
			Killer: unit("cmd/kubectl-remit/uninstall", "TestKeepsKindsThatAreUsedByNow"),
		},
		{
			Name: "adopt-overloads-are-about-an-object", Rule: 7, File: "pkg/preflight/refusal.go",
			Old:    "	return code >= 400 && code < 500 && !isUndecided(err) && !apierrors.IsUnauthorized(err) && !lacksPermission(err)",
			New:    "	return code >= 400 && !apierrors.IsUnauthorized(err) && !lacksPermission(err)",
			Killer: unit(command, elsewhere),
		},
		{
			Name: "adopt-missing-permissions-are-about-an-object", Rule: 7, File: "pkg/preflight/refusal.go",
			Old:    "	return code >= 400 && code < 500 && !isUndecided(err) && !apierrors.IsUnauthorized(err) && !lacksPermission(err)",
			New:    "	return code >= 400 && code < 500 && !isUndecided(err) && !apierrors.IsUnauthorized(err)",
			Killer: unit(command, elsewhere),
		},
	}
}
