package mutants

// text returns the mutants of rule 8 for text that people read: a stranger's string is data.
func text() []Mutant {
	const (
		writer = "pkg/lib/message"
		lines  = "TestAStringOfOthersIsPartOfOneLine"
	)
	return []Mutant{
		{
			Name: "arguments-break-lines", Rule: 8, File: "pkg/lib/message/text.go",
			Old: "mark+OneLine(fmt.Sprintf(fmt.FormatString(f, verb), v.value))", New: "mark+fmt.Sprintf(fmt.FormatString(f, verb), v.value)",
			Killer: unit(writer, lines),
		},
		{
			Name: "arguments-begin-documents", Rule: 8, File: "pkg/lib/message/text.go",
			Old: "	if marked && !opening.MatchString(own) && !rule.MatchString(line) {", New: "	if marked && own == \"\" && !rule.MatchString(line) {",
			Killer: unit(writer, lines),
		},
		{
			Name: "open-rules-remain", Rule: 8, File: "pkg/lib/message/escape.go",
			Old: `(, )?)+\}$` + "`)", New: `(, )?)+` + "`)",
			Killer: unit(writer, lines),
		},
		{
			Name: "strings-begin-documents", Rule: 8, File: "pkg/lib/message/text.go",
			Old: "return Text(guard(OneLine(text)))", New: "return Text(OneLine(text))",
			Killer: unit(writer, lines),
		},
		{
			Name: "errors-are-lines", Rule: 8, File: "pkg/lib/message/text.go",
			Old: "	if inner == nil || inner.Error() == \"\" {\n		return Line(err.Error())", New: "	if inner == nil || inner.Error() == \"\" {\n		return Text(err.Error())",
			Killer: unit(writer, lines),
		},
		{
			Name: "lines-follow-documents", Rule: 8, File: "pkg/lib/message/text.go",
			Old: "	return Text(lines + documents)", New: "	return Text(documents + lines)",
			Killer: unit(writer, "TestDocumentsFollowTheLines"),
		},
		{
			Name: "documents-are-truncated", Rule: 8, File: "pkg/lib/message/text.go",
			Old: "return Text(Cut(string(t.Prose()), limit))", New: "return Text(Cut(string(t), limit))",
			Killer: unit(writer, "TestLimitKeepsNoPartOfADocument"),
		},
		{
			Name: "documents-of-a-status-are-trusted", Rule: 8, File: "pkg/lib/message/reread.go",
			Old: "return Lines(append(out, rereadDocuments(documents))...)", New: "return Lines(append(out, Text(documents))...)",
			Killer: unit(writer, "TestATextFromAStatusIsReadAgain"),
		},
		{
			Name: "unsafe-keys-in-block-style", Rule: 8, File: "pkg/lib/message/write.go",
			Old: "		if isSafe(string(text)) {", New: "		if true {",
			Killer: unit(writer, "TestDocumentsFollowTheLines"),
		},
		{
			Name: "strings-are-text-in-a-status", Rule: 8, File: "pkg/lib/status/status.go",
			Old: "	return message.Line(string(text))", New: "	return message.Text(text)",
			Killer: unit("pkg/lib/status", "TestTextIsSafeToDisplay"),
		},
		{
			Name: "documents-in-events", Rule: 8, File: "pkg/lib/status/status.go",
			Old: "textOf(text).Prose().Limit(maxNote)", New: "textOf(text).Limit(maxNote)",
			Killer: unit("pkg/lib/status", "TestNotesOfEventsAreLimited"),
		},
		{
			Name: "arguments-of-lines-are-not-guarded", Rule: 8, File: "pkg/lib/message/escape.go",
			Old: "	if opening.MatchString(line) {", New: "	if false {",
			Killer: unit(writer, lines),
		},
		{
			Name: "requirements-break-lines", Rule: 8, File: "pkg/controller/csv/shown.go",
			Old: "		out[i].Message = status.Text(out[i].Message)", New: "		out[i].Message = string([]byte(out[i].Message))",
			Killer: unit("pkg/controller/csv", "TestRequirementsAreLines"),
		},
	}
}
