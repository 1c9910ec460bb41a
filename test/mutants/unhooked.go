package mutants

// unhooked returns the mutants of the guards that decide which webhooks without an owner are removed.
func unhooked() []Mutant {
	const removed, stay = "TestWhatDoesNotKeepAWebhook", "TestWhichWebhooksWithoutACSVStay"
	of := func(dir, file string) func(name string, rule int, old, changed, killer string) Mutant {
		return func(name string, rule int, old, changed, killer string) Mutant {
			return Mutant{Name: name, Rule: rule, File: dir + "/" + file, Old: old, New: changed, Killer: unit(dir, killer)}
		}
	}
	group, search := of("pkg/controller/operatorgroup", "hooks.go"), of("pkg/controller/operatorgroup", "excess.go")
	extension, leftover := of("pkg/controller/clusterextension", "lefthooks.go"), of("pkg/controller/clusterextension", "leftover.go")
	const remover = "manifests/remover/policy/removals.yaml"
	return []Mutant{
		search("webhooks-without-a-csv-stay", 1, "append(s.intercepting(ctx), found...)", "found", removed),
		search("webhooks-that-lost-their-proof-are-removed", 7, "!ownerutil.IsProven(obj, s.Proofs)", "s == nil", stay),
		group("webhooks-of-other-namespaces-are-removed", 7, "return c.Service == nil || c.Service.Namespace != namespace", "return c.Service == nil", "TestAWebhookOfALongPackageNameIsRemoved"),
		group("webhooks-of-the-default-account-without-a-csv-are-removed", 1, "err != nil || s.hookBound.Default {", "err != nil {", "TestWebhooksOfTheDefaultAccountStay"),
		group("webhooks-without-a-csv-are-removed-by-the-cache", 1, "s.cut(ctx, obj, &preflight.Confirmer{Ask: s.ask})", "s.cut(ctx, obj, s.confirmer)", stay),
		group("webhooks-without-a-csv-are-compared-with-a-cached-record", 3, "current, err = lookup.HookBound(", "current, err = s.Default.Lookup(s.Client).HookBound(", stay),
		search("only-one-account-removes", 1, "Acting(ctx, s.hookBound)", "Acting(ctx, scoped.Bound{Namespace: s.bound.Namespace})", removed),
		{
			Name: "webhooks-wait-for-the-grace-period-of-permissions", Rule: 1, File: "pkg/install/excess/ages.go",
			Old: "		if len(o.Intercepts) > 0 {\n", New: "		if len(o.Intercepts) > 99 {\n",
			Killer: unit("pkg/controller/operatorgroup", "TestAWebhookWithoutACSVIsReportedAndRemoved"),
		},
		leftover("webhooks-without-an-extension-stay", 1, "append(hooks, found...), func(client.Object)", "append(hooks[:0], found...), func(client.Object)", "TestAWebhookWithoutAnExtensionIsRemoved"),
		leftover("webhooks-without-an-extension-are-removed-by-the-cache", 1, "s.intercepting(ctx, is.Live, &preflight.Confirmer{Ask: s.confirmer.Ask})", "s.intercepting(ctx, is.Live, cmp.Or(s.confirmer, &preflight.Confirmer{}))",
			"TestWhichWebhooksWithoutAnExtensionStay"),
		extension("the-remover-reads-webhooks-in-every-run", 8, "		s.unhooked.Set(s.ext.Name, s.ext.UID)\n", "		s.unhooked.Delete(s.ext.Name)\n", "TestLooksOnceForTheWebhooksOfAnEarlierExtension"),
		{
			Name: "the-remover-deletes-any-webhook", Rule: 4, File: remover,
			Old:    "      resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]\n",
			New:    "      resources: [validatingwebhookconfigurations]\n",
			Killer: unit("manifests", "TestTheRemoverHasOnlyTheClosedList"),
		},
	}
}
