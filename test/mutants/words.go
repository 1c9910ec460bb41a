package mutants

// words returns the mutants of rule 9: a stranger's string is data.
func words() []Mutant {
	return []Mutant{
		{
			Name: "names-may-contain-line-breaks", Rule: 8, File: "pkg/bundle/words.go",
			Old:    "		if isName(field) {",
			New:    "		if false {",
			Killer: unit("pkg/bundle", "TestParseRefuses"),
		},
		{
			Name: "keys-may-be-comments", Rule: 8, File: "pkg/bundle/words.go",
			Old:    "content.IsLabelKey(strings.ToLower(key)); len(problems) > 0 {",
			New:    "content.IsLabelKey(strings.ToLower(key)); false && len(problems) > 0 {",
			Killer: unit("pkg/bundle", "TestParseRefuses"),
		},
		{
			Name: "kinds-may-contain-line-breaks", Rule: 8, File: "pkg/bundle/parse.go",
			Old:    "err := checkType(obj); err != nil {",
			New:    "err := checkType(obj); false {",
			Killer: unit("pkg/bundle", "TestParseRefuses"),
		},
		{
			Name: "namespaces-may-contain-line-breaks", Rule: 8, File: "pkg/bundle/parse.go",
			Old:    `message.CheckWord("metadata.namespace", namespace)`,
			New:    `message.CheckWord("metadata.namespace", namespace[:0])`,
			Killer: unit("pkg/bundle", "TestParseRefuses"),
		},
		{
			Name: "kinds-identify-manifests-in-any-case", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    "!message.IsWord(head.Kind) ||",
			New:    "",
			Killer: unit("test/injection", "TestBundles"),
		},
		{
			Name: "names-in-bundles-are-not-checked", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    `CheckNames("spec", csv.Spec)`,
			New:    `CheckNames("spec", nil)`,
			Killer: unit("pkg/bundle", "TestEveryNameOfAClusterServiceVersionIsChecked"),
		},
		{
			Name: "names-in-csvs-of-users-are-not-checked", Rule: 8, File: "pkg/bundle/csv.go",
			Old:    `CheckNames("spec", csv.Spec)`,
			New:    `CheckNames("spec", nil)`,
			Killer: unit("pkg/bundle", "TestEveryNameOfAClusterServiceVersionIsChecked"),
		},
		{
			Name: "subjects-may-contain-line-breaks", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    `CheckNames("", binding)`,
			New:    `CheckNames("", nil)`,
			Killer: unit("pkg/bundle", "TestParseRefuses"),
		},
		{
			Name: "kinds-of-crds-may-contain-line-breaks", Rule: 8, File: "pkg/bundle/bundle.go",
			Old:    `message.CheckWord("spec.names.kind", defined.Kind)`,
			New:    `message.CheckWord("spec.names.kind", "")`,
			Killer: unit("pkg/bundle", "TestParseRefuses"),
		},
		{
			Name: "strings-of-catalogs-are-not-checked", Rule: 8, File: "pkg/catalog/validate.go",
			Old:    "err := p.Bundles[name].checkWords(); err != nil {",
			New:    "err := p.Bundles[name].checkWords(); false {",
			Killer: unit("test/injection", "TestCatalogs"),
		},
		{
			Name: "edges-of-catalogs-are-not-checked", Rule: 8, File: "pkg/catalog/validate.go",
			Old:    "err := c.Entries[name].checkWords(); err != nil {",
			New:    "err := c.Entries[name].checkWords(); false {",
			Killer: unit("test/injection", "TestCatalogs"),
		},
		{
			Name: "references-of-deprecations-are-text", Rule: 8, File: "pkg/catalog/fbc/snapshot.go",
			Old:    "message.Word(e.Reference.Schema)",
			New:    "string(message.Line(\"\")) + e.Reference.Schema",
			Killer: unit("test/injection", "TestCatalogs"),
		},
		{
			Name: "deprecations-of-registries-are-text", Rule: 8, File: "pkg/catalog/grpc/load.go",
			Old:    "string(message.Line(d.GetMessage()))",
			New:    "string(message.Line(\"\")) + d.GetMessage()",
			Killer: unit("test/injection", "TestRegistries"),
		},
		{
			Name: "requirements-are-text", Rule: 8, File: "pkg/resolver/requirement.go",
			Old:    "all[i].text, all[i].message = message.OneLine(cutMessage(all[i].text)), lines[all[i].message]",
			New:    "_ = lines",
			Killer: unit("test/injection", "TestCatalogs"),
		},
		{
			Name: "owned-kinds-are-text", Rule: 8, File: "pkg/resolver/facts.go",
			Old:    `message.OneLine(fmt.Sprintf("%s (%s/%s)", a.Kind, a.Group, a.Version))`,
			New:    `message.OneLine("") + fmt.Sprintf("%s (%s/%s)", a.Kind, a.Group, a.Version)`,
			Killer: unit("test/injection", "TestCatalogs"),
		},
		{
			Name: "errors-in-dependencies-are-text", Rule: 8, File: "pkg/resolver/explain.go",
			Old:    "message.OneLine(n.bad.Error())",
			New:    "message.OneLine(\"\") + n.bad.Error()",
			Killer: unit("test/injection", "TestCatalogs"),
		},
		{
			Name: "unknown-fields-of-a-configuration-are-text", Rule: 8, File: "pkg/extension/render/config.go",
			Old:    "message.Word(at.FieldPath())",
			New:    "message.Word(\"a\")[:0] + at.FieldPath()",
			Killer: unit("test/injection", "TestConfigurations"),
		},
		{
			Name: "keys-of-a-configuration-are-not-checked", Rule: 8, File: "pkg/install/deployment/size.go",
			Old:    `bundle.CheckNames("", config)`,
			New:    `bundle.CheckNames("", nil)`,
			Killer: unit("test/injection", "TestConfigurations"),
		},
		{
			Name: "lines-about-subscriptions-are-text", Rule: 8, File: "pkg/lib/message/escape.go",
			Old:    "	if IsPlain(text) {\n		return text",
			New:    "	if true {\n		return text",
			Killer: row("300"),
		},
		{
			Name: "lines-about-extensions-are-text", Rule: 8, File: "pkg/lib/message/escape.go",
			Old:    "	if IsPlain(text) {\n		return text",
			New:    "	if true {\n		return text",
			Killer: row("301"),
		},
	}
}
