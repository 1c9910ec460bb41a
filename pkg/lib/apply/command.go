package apply

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeleteCommand returns the shell command that deletes an object.
func DeleteCommand(obj client.Object) string { return Command("delete", obj) }

// Command returns the shell command with which kubectl changes an object. The options are part of the command as they are. The name is
// quoted, and cannot be read as an option: names in bundles contain no shell metacharacters, but other users who write objects of a
// lineage may choose any name, and "-A" is a valid name of a role.
func Command(verb string, obj client.Object, options ...string) string {
	words := []string{"kubectl", verb, strings.ToLower(KindOf(obj)), ShellWord(obj.GetName())}
	if obj.GetNamespace() != "" {
		options = append([]string{"-n " + obj.GetNamespace()}, options...)
	}
	if strings.HasPrefix(obj.GetName(), "-") {
		words = slices.Concat(words[:3], options, []string{"--"}, words[3:])
	} else {
		words = append(words, options...)
	}
	return strings.Join(words, " ")
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
