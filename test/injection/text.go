package injection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Stranger is the name of the object in all documents of Strings.
const Stranger = "stranger"

const document = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: " + Stranger + "}\n"

// Strings returns strings that become something else if they are written as they are.
func Strings() []string {
	lines := "x\n---\n" + document + "...\n#"
	return []string{
		lines,
		strings.ReplaceAll(lines, "\n", "\r"),
		strings.ReplaceAll(lines, "\n", "\u2028"),
		strings.ReplaceAll(lines, "\n", "\u0085"),
		"x\n# " + Stranger + ": comment",
		"x\n```\n" + document + "```",
		"x\n{kind: ClusterRoleBinding, apiVersion: rbac.authorization.k8s.io/v1, metadata: {name: " + Stranger + "}}\n",
		"x.k8s.io/x\x1b[2J\x1b]0;" + Stranger + "\x07", // messages list keys in reserved domains
		"x\u202e" + Stranger + "\u200b",
		"---\n" + document,
	}
}

// Some returns two of Strings for the place with a number: the first one, and another one that differs from place to place.
func Some(number int) []string {
	all := Strings()
	return []string{all[0], all[1+number%(len(all)-1)]}
}

// CheckText returns an error if an output, except the objects that Remit itself appends as documents, contains something that one of
// Strings could have put there: a character that a terminal or a parser interprets, a line that begins like a document, a comment or a
// block, or an object that kubectl apply would read.
func CheckText(text string) error {
	if err := checkCharacters(text); err != nil {
		return err
	}
	lines, _, _ := strings.Cut("\n"+text, "\n---\n")
	for line := range strings.Lines(lines) {
		if opening.MatchString(line) {
			return fmt.Errorf("the line %q is not text", line)
		}
	}
	return CheckDocuments(text)
}

// opening matches lines with which text of Remit does not begin.
var opening = regexp.MustCompile("^\\s*(---|\\.\\.\\.|#|```|\\{ *(kind|apiVersion|metadata):|apiVersion:|kind:|metadata:)")

func checkCharacters(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%q is not UTF-8", text)
	}
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == '\u2800') {
			return fmt.Errorf("the character %q is in %q", r, text)
		}
	}
	return nil
}

// CheckDocuments returns an error if kubectl apply would read the object of Strings from the text, or from its rest after any separator of
// documents.
func CheckDocuments(text string) error {
	for {
		for _, object := range applied(text) {
			if name, _ := object["metadata"].(map[string]any); object["kind"] == "ClusterRoleBinding" && name["name"] == Stranger {
				return fmt.Errorf("kubectl apply would create ClusterRoleBinding %s from %q", Stranger, text)
			}
		}
		_, rest, ok := strings.Cut(text, "\n---")
		if !ok {
			return nil
		}
		text = rest
	}
}

// applied returns the objects that kubectl apply reads from a text.
func applied(text string) (out []map[string]any) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var raw json.RawMessage
		var object map[string]any
		if decoder.Decode(&raw) != nil || json.Unmarshal(raw, &object) != nil {
			return out
		}
		out = append(out, object)
	}
}
