package apply

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeleteCommand returns the shell command that deletes an object. It quotes the name: names in bundles contain no shell
// metacharacters, but other users who write objects of a lineage may choose any name.
func DeleteCommand(obj client.Object) string {
	out := "kubectl delete " + strings.ToLower(KindOf(obj)) + " " + ShellWord(obj.GetName())
	if obj.GetNamespace() != "" {
		out += " -n " + obj.GetNamespace()
	}
	return out
}

// ShellWord quotes text as a single shell word.
func ShellWord(text string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(":._@-", r))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}
