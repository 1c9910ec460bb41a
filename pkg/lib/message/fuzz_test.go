package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const injection = "list them\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: x}\n...\n#"

// FuzzWhatIsApplied writes strings of others in each way that this package offers. Whatever they are, the text has the same
// lines, and kubectl apply reads exactly the given objects from it.
func FuzzWhatIsApplied(f *testing.F) {
	for _, seed := range [][2]string{
		{injection, "a"}, {"a", injection}, {"---\n", "-"}, {"{kind: a, apiVersion: b}", "..."}, {"apiVersion: v1", "kind: X"},
		{"\"kind\": x", "? kind"}, {`{"kind": "ClusterRole", "apiVersion": "v1"}`, `{"\x6bind": x}`}, {"\xff\u2028\u2029\u0085---", "\r\r---\r"}, {"\x1b[2J", "\u202e\u200b\U000E0041"}, {"# a", "```"}, {"", "{  "}, {"a: b, kind: ClusterRole, apiVersion: v1}", "{"}, {"%YAML 1.1", "--- |"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		role := &rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: strings.ToValidUTF8(a, ""), Annotations: map[string]string{strings.ToValidUTF8(b, ""): strings.ToValidUTF8(a, "")}},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{strings.ToValidUTF8(a, ""), strings.ToValidUTF8(b, "")}}},
		}
		docs, err := Documents(role)
		if len(b) > 90 && err != nil {
			t.Skip("the escaped key is too long for YAML")
		}
		require.NoError(t, err)
		text := Lines(
			Sprintf("%s requests %s", a, b), Sprintf("- User %q cannot %v", a, errors.New(b)), Line(a), Line(b),
			Of(fmt.Errorf("%s: %w", a, errors.Join(errors.New(b), docs.Err()))), Sprintf("%s%s\n  %-3s|", a, b, b),
		)
		require.True(t, isSafe(string(text)), "%q", text)
		require.LessOrEqual(t, len(text.Split()), 7, "the last text has two lines, and empty lines are omitted: %q", text)
		for _, line := range text.Split() {
			require.False(t, opening.MatchString(string(line)) && !rule.MatchString(string(line)), "%q", line)
		}
		want, err := json.Marshal(role)
		require.NoError(t, err)
		require.Equal(t, []string{string(want)}, applied(t, fromFirstSeparator(string(text))))
		require.Empty(t, applied(t, string(text.Prose())), "%q", text)
		for _, indented := range []Text{Sprintf("  %s", a), Sprintf("  %s: %s", a, b), Sprintf("  %s\n%s", b, a)} {
			require.Empty(t, applied(t, string(indented)), "%q", indented)
		}
		require.Empty(t, text.Limit(len(text)-1).Documents())
	})
}

// fromFirstSeparator returns the lines from the first that begins with ---, which is what people cut out of a message.
func fromFirstSeparator(text string) string {
	if strings.HasPrefix(text, "---") {
		return text
	}
	_, after, ok := strings.Cut(text, "\n---")
	if !ok {
		return ""
	}
	return "---" + after
}

// applied returns the objects that kubectl apply reads from a text, as JSON in the form of a ClusterRole.
func applied(t *testing.T, text string) []string {
	t.Helper()
	var out []string
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		var object map[string]any
		switch {
		case errors.Is(err, io.EOF):
			return out
		case err != nil, json.Unmarshal(raw, &object) != nil, object["kind"] == nil:
			return out // kubectl applies nothing more
		}
		role := &rbacv1.ClusterRole{}
		require.NoError(t, json.Unmarshal(raw, role))
		again, err := json.Marshal(role)
		require.NoError(t, err)
		out = append(out, string(again))
	}
}

// names returns the names of the objects that kubectl apply reads from a text.
func names(t *testing.T, text string) []string {
	t.Helper()
	var out []string
	for _, object := range applied(t, text) {
		role := &rbacv1.ClusterRole{}
		require.NoError(t, json.Unmarshal([]byte(object), role))
		out = append(out, role.Name)
	}
	return out
}
