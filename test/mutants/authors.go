package mutants

// authors returns the mutants of the guards of docs/adr/0085, and of what the command line hides or waits for.
func authors() []Mutant {
	const (
		policy = "manifests/policy/csv-author.yaml"
		plans  = "    - apiGroups: [operators.coreos.com]\n      apiVersions: [\"*\"]\n      operations: [CREATE]\n      resources: [installplans]\n  paramRef"
	)
	return []Mutant{
		{
			Name: "pipes-are-read-as-manifests", File: "pkg/catalog/regular.go",
			Old:    "if err == nil && !info.IsDir() && !info.Mode().IsRegular() {",
			New:    "if err == nil && !info.IsDir() && !info.Mode().IsRegular() && name == \"\" {",
			Killer: unit("cmd/kubectl-remit/internal/grants", "TestRefusesFilesThatAreNotRegular"),
		},
		{
			Name: "labels-hide-installed-versions", Rule: 3, File: "cmd/kubectl-remit/status/copies.go",
			Old:    "csv.Status.Reason == operatorsv1alpha1.CSVReasonCopied &&",
			New:    "",
			Killer: unit("cmd/kubectl-remit/status", "TestHidesNoCSVThatIsNotACopy"),
		},
		{
			Name: "subscriptions-precede-the-group", Rule: 5, File: policy,
			Old:    "      resources: [subscriptions]\n",
			New:    "      resources: [subscriptions/scale]\n",
			Killer: unit("test/author", "TestRefusesASubscriptionWithoutAnOperatorGroup"),
		},
		{
			Name: "plans-precede-the-group", Rule: 5, File: policy,
			Old:    "      resources: [installplans]\n  paramRef",
			New:    "      resources: [installplans/scale]\n  paramRef",
			Killer: unit("test/author", "TestRefusesAnInstallPlanWithoutAnOperatorGroup"),
		},
		{
			Name: "plans-that-look-like-copies-precede-the-group", Rule: 5, File: policy,
			Old:    "    resourceRules:\n" + plans,
			New:    "      - {key: olm.copiedFrom, operator: DoesNotExist}\n    resourceRules:\n" + plans,
			Killer: unit("test/author", "TestRefusesAnInstallPlanWithoutAnOperatorGroup"),
		},
		{
			Name: "csvs-are-installed-through-deleted-groups", Rule: 5, File: "pkg/controller/csv/group.go",
			Old:    "		err = scoped.CheckNotDeleted(s.group) //",
			New:    "		err = scoped.CheckNotDeleted(nil) //",
			Killer: unit("pkg/controller/csv", "TestNothingIsInstalledThroughAnOperatorGroupThatIsBeingDeleted"),
		},
		{
			Name: "csvs-are-installed-through-groups-deleted-meanwhile", Rule: 5, File: "pkg/controller/csv/guard.go",
			Old:    "err != nil && !g.deleted {",
			New:    "err != nil && g.deleted {",
			Killer: unit("pkg/controller/csv", "TestNothingIsInstalledThroughAnOperatorGroupThatIsBeingDeleted"),
		},
		{
			Name: "installed-csvs-change-through-deleted-groups", Rule: 5, File: "pkg/controller/csv/warrant.go",
			Old:    "		out.GroupDeleted = f.Account\n",
			New:    "		_ = f.Account\n",
			Killer: unit("pkg/controller/csv", "TestNothingIsInstalledThroughAnOperatorGroupThatIsBeingDeleted"),
		},
		{
			Name: "certificates-are-renewed-through-deleted-groups", Rule: 5, File: "pkg/install/warrant/warrant.go",
			Old:    "f.Ineligible == nil && f.GroupDeleted == nil && f.Evaluated",
			New:    "f.Ineligible == nil && f.Evaluated",
			Killer: unit("pkg/install/warrant", "TestFindingsDenyOperations"),
		},
		{
			Name: "deleted-groups-copy", Rule: 5, File: "pkg/controller/copiedcsv/pass.go",
			Old:    "p.want.undecided || scoped.CheckNotDeleted(p.want.group) != nil {",
			New:    "p.want.undecided {",
			Killer: unit("pkg/controller/copiedcsv", "TestWritesNoCopiesWhileTheGroupIsBeingDeleted"),
		},
		{
			Name: "groups-deleted-meanwhile-copy", Rule: 5, File: "pkg/controller/copiedcsv/pass.go",
			Old:    "	if err := scoped.CheckNotDeleted(group); err != nil {",
			New:    "	if err := scoped.CheckNotDeleted(nil); err != nil {",
			Killer: unit("pkg/controller/copiedcsv", "TestWritesNoCopiesWhileTheGroupIsBeingDeleted"),
		},
		{
			Name: "deleted-groups-publish", Rule: 5, File: "pkg/install/warrant/warrant.go",
			Old:    "return f.ready(f.GroupDeleted)",
			New:    "return f.ready(nil)",
			Killer: unit("pkg/install/warrant", "TestFindingsDenyOperations"),
		},
		{
			Name: "anyone-changes-specs-without-a-group", Rule: 5, File: policy,
			Old:    "? !variables.ofAny && variables.mayUseRecorded && variables.mayUseNext",
			New:    "? !variables.ofAny && variables.mayUseNext",
			Killer: unit("test/author", "TestTheLastAccountDecidesWhoChangesASpecWithoutAGroup"),
		},
		{
			Name: "anyone-names-another-account-in-the-record", Rule: 5, File: policy,
			Old:    "&& variables.mayUseRecorded && variables.mayUseNext ||",
			New:    "&& variables.mayUseRecorded ||",
			Killer: unit("test/author", "TestOnlyUsersOfTheRecordedAccountChangeTheRecord"),
		},
		{
			Name: "csvs-keep-their-first-account", Rule: 5, File: "pkg/controller/csv/record.go",
			Old:    "	if account == recorded {",
			New:    "	if account == recorded || recorded != \"\" {",
			Killer: unit("pkg/controller/csv", "TestRecordsTheLastAccount"),
		},
		{
			Name: "remit-changes-annotations", Rule: 5, File: "manifests/policy/finalizers.yaml",
			Old:    "k == 'remit.dev/account' || object.metadata.annotations[k] ==",
			New:    "true || object.metadata.annotations[k] ==",
			Killer: unit("test/author", "TestRemitReplacesTheRecordedAccount"),
		},
		{
			Name: "remit-removes-finalizers-with-the-record", Rule: 5, File: "manifests/policy/finalizers.yaml",
			Old:    "      object.metadata.?finalizers == oldObject.metadata.?finalizers\n      && object.metadata",
			New:    "      object.metadata",
			Killer: unit("test/author", "TestRemitReplacesTheRecordedAccount"),
		},
		{
			Name: "records-of-csvs-of-any-account", Rule: 5, File: "pkg/controller/csv/record.go",
			Old:    "	if s.leftToOLM {\n		return nil\n	}\n	accounts, err",
			New:    "	if _, ofAny := s.csv.Labels[names.LabelAnyAccount]; ofAny || s.leftToOLM {\n		return nil\n	}\n	accounts, err",
			Killer: unit("pkg/controller/csv", "TestRecordsTheLastAccount"),
		},
		{
			Name: "csvs-that-cannot-run-record-no-account", Rule: 5, File: "pkg/controller/csv/record.go",
			Old:    "	if account == recorded {",
			New:    "	if account == recorded || !s.runnable() {",
			Killer: unit("pkg/controller/csv", "TestRecordsTheAccountOfAVersionThatIsNotInstalled"),
		},
		{
			Name: "several-groups-replace-the-record", Rule: 5, File: "pkg/lib/scoped/bound.go",
			Old:    "if len(accounts) == 0 || slices.ContainsFunc(",
			New:    "if len(accounts) == 0 || len(accounts) == 1 && slices.ContainsFunc(",
			Killer: unit("pkg/controller/csv", "TestRecordsTheAccountOfAVersionThatIsNotInstalled"),
		},
		{
			Name: "a-refused-record-keeps-webhooks-wide", Rule: 3, File: "pkg/controller/csv/reconciler.go",
			Old:    "	if err := errors.Join(r.record(ctx, s), r.gatherExceeding(ctx, s)",
			New:    "	if err := r.record(ctx, s); err != nil {\n		return err\n	}\n	if err := errors.Join(r.gatherExceeding(ctx, s)",
			Killer: unit("pkg/controller/csv", "TestARecordThatIsRefusedDelaysOnlyTheInstall"),
		},
		{
			Name: "the-record-of-a-csv-is-unprotected", Rule: 5, File: policy,
			Old:    "'service.beta.openshift.io/inject-cabundle', 'remit.dev/account',\n",
			New:    "'service.beta.openshift.io/inject-cabundle',\n",
			Killer: unit("test/author", "TestOnlyUsersOfTheRecordedAccountChangeTheRecord"),
		},
		{
			Name: "available-outlives-its-observation", File: "pkg/controller/clusterextension/available.go",
			Old:    "		case err != nil:\n			s.available = unobserved(apply.Describe(obj) + \": \" + err.Error())\n",
			New:    "		case err != nil:\n			_ = unobserved(apply.Describe(obj))\n",
			Killer: unit("pkg/controller/clusterextension", "TestAvailableDoesNotOutliveItsObservation"),
		},
		{
			Name: "csvs-of-users-bring-no-warning", Rule: 5, File: "pkg/controller/csv/reconciler.go",
			Old:    "			r.warnEscalation(s.csv)\n",
			New:    "",
			Killer: unit("pkg/controller/csv", "TestWarnsOnceOfAnOperatorThatCanObtainPermissions"),
		},
		{
			Name: "subscriptions-bring-no-warning", Rule: 5, File: "pkg/controller/subscription/reconciler.go",
			Old:    "		if warning := newEscalation(&sub.Status, &after.Status); warning != \"\" {",
			New:    "		if warning := newEscalation(&sub.Status, &after.Status); warning == \"?\" {",
			Killer: unit("pkg/controller/subscription", "TestAnnouncesEscalationInAnEvent"),
		},
		{
			Name: "extensions-bring-no-warning", Rule: 5, File: "pkg/controller/clusterextension/conditions.go",
			Old:    `has all permissions that the version needs.", s.identity), f.Escalation(), `,
			New:    `has all permissions that the version needs.", s.identity), `,
			Killer: unit("pkg/controller/clusterextension", "TestAuthorizedWarnsAboutEscalation"),
		},
		{
			Name: "the-properties-of-a-csv-are-unprotected", Rule: 5, File: policy,
			Old:    "\n      'operatorframework.io/properties', 'olm",
			New:    "\n      'operatorframework.io/other', 'olm",
			Killer: unit("test/author", "TestUsersWhoMayNotActAsTheAccountCannotChangeASpec"),
		},
		{
			Name: "the-record-of-a-subscription-is-unprotected", Rule: 5, File: policy,
			Old:    "request.?subResource.orValue('') == '' || request.userInfo.username ==",
			New:    "request.?subResource.orValue('') != '?' || request.userInfo.username ==",
			Killer: unit("test/author", "TestOnlyUsersOfTheRecordedAccountChangeTheRecord"),
		},
		{
			Name: "a-command-makes-users-cluster-administrators", Rule: 2, File: policy,
			Old:    "+ (variables.account == '' ? 'It is the default account, which",
			New:    "+ (variables.name == '' ? 'It is the default account, which",
			Killer: unit("test/author", "TestNoCommandAllowsUsersToUseTheDefaultAccount"),
		},
		{
			Name: "subscriptions-forget-their-account", Rule: 5, File: "pkg/controller/subscription/status.go",
			Old:    `if v.named != "" { // the last`,
			New:    `if v.named == "?" { // the last`,
			Killer: unit("pkg/controller/subscription", "TestRecordsTheAccountOfASubscription"),
		},
		{
			Name: "queued-subscriptions-record-no-account", Rule: 5, File: "pkg/controller/subscription/reconciler.go",
			Old:    "		errs = append(errs, r.record(ctx, world, sub))\n",
			New:    "",
			Killer: unit("pkg/controller/subscription", "TestRecordsTheAccountOfASubscriptionThatIsNotResolved"),
		},
		{
			Name: "subscriptions-record-only-usable-accounts", Rule: 5, File: "pkg/controller/subscription/world.go",
			Old:    "	case errors.As(err, &problem):\n",
			New:    "	case errors.As(err, &problem):\n		w.named = nil\n",
			Killer: unit("pkg/controller/subscription", "TestRecordsTheAccountOfASubscriptionThatIsNotResolved"),
		},
		{
			Name: "a-restart-delays-records", Rule: 5, File: "pkg/controller/subscription/reloading.go",
			Old:    " || differs(typeAuthorUnchecked) {",
			New:    " {",
			Killer: unit("pkg/controller/subscription", "TestNewsThatDoNotDependOnCatalogsAreNotKeptBack"),
		},
		{
			Name: "plans-record-no-account", Rule: 5, File: "pkg/step/execute/execute.go",
			Old:    `	case e.Key.Name != "":`,
			New:    `	case e.Key.Name == "?":`,
			Killer: unit("pkg/step/execute", "TestAClusterServiceVersionKeepsItsFirstAccount"),
		},
		{
			Name: "catalogs-are-written-by-anyone", Rule: 5, File: policy,
			Old:    "      resources: [catalogsources, clusterserviceversions, subscriptions]",
			New:    "      resources: [clusterserviceversions, subscriptions]",
			Killer: unit("test/author", "TestUsersWhoMayActAsTheAccountCanWriteCatalogs"),
		},
		{
			Name: "catalogs-precede-the-group", Rule: 5, File: policy,
			Old:    "      resources: [catalogsources]\n",
			New:    "      resources: [catalogsources/status]\n",
			Killer: unit("test/author", "TestRefusesACatalogWithoutAnOperatorGroup"),
		},
		{
			Name: "templates-replace-the-image-unchecked", Rule: 5, File: policy,
			Old:    " 'olm.catalogImageTemplate',",
			New:    "",
			Killer: unit("test/author", "TestUsersWhoMayActAsTheAccountCanWriteCatalogs"),
		},
		{
			Name: "anyone-changes-the-record-of-a-catalog", Rule: 5, File: policy,
			Old:    "      resources: [catalogsources/status, subscriptions/status]",
			New:    "      resources: [subscriptions/status]",
			Killer: unit("test/author", "TestTheLastAccountDecidesWhoChangesACatalogWithoutAGroup"),
		},
		{
			Name: "anyone-changes-the-targets", Rule: 5, File: "manifests/policy/author.yaml",
			Old:    "      || object.?spec.?targetNamespaces.orValue([]) != oldObject.?spec.?targetNamespaces.orValue([])\n",
			New:    "",
			Killer: unit("test/author", "TestChecksOtherTargets"),
		},
		{
			Name: "catalogs-record-no-account", Rule: 5, File: "pkg/controller/catalogsource/record.go",
			Old:    "account != \"\" {",
			New:    "account == \"?\" {",
			Killer: unit("pkg/controller/catalogsource", "TestRecordsTheAccountOfACatalogSource"),
		},
		{
			Name: "a-deleted-group-leaves-everything-to-the-default-account", Rule: 5, File: "pkg/lib/scoped/bound.go",
			Old:    "	if len(recorded) > 0 && !slices.Contains(recorded, l.Default.Account) {",
			New:    "	if false {",
			Killer: unit("pkg/lib/scoped", "TestTheAccountsOfANamespaceBoundItsOperators"),
		},
		{
			Name: "recorded-accounts-replace-the-default-account", Rule: 5, File: "pkg/lib/scoped/bound.go",
			Old:    "	if len(recorded) > 0 && !slices.Contains(recorded, l.Default.Account) {",
			New:    "	if len(recorded) > 0 {",
			Killer: unit("pkg/lib/scoped", "TestTheAccountsOfANamespaceBoundItsOperators"),
		},
	}
}
