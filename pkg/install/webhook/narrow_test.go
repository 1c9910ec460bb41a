package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// configured returns a live configuration with one webhook, whose rules and selector are YAML.
func configured(t *testing.T, kind, rules, selector string) *unstructured.Unstructured {
	t.Helper()
	obj := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(fmt.Sprintf(`{kind: %s, metadata: {name: x}, webhooks: [{name: w, rules: [%s], namespaceSelector: %s, clientConfig: {caBundle: eA==}}]}`,
		kind, rules, selector)), &obj))
	return &unstructured.Unstructured{Object: obj}
}

func TestNarrowRemovesWhatIsNotHeld(t *testing.T) {
	const (
		maps  = `{apiGroups: [""], apiVersions: ["*"], resources: [configmaps], operations: [CREATE], scope: "Namespaced"}`
		nodes = `{apiGroups: [""], apiVersions: ["*"], resources: [nodes], operations: [DELETE], scope: "*"}`
		some  = `{apiGroups: [x.example.com], apiVersions: ["*"], resources: ["*"], operations: [CREATE], scope: "*"}`
		both  = `{matchExpressions: [{key: team, operator: Exists}, {key: kubernetes.io/metadata.name, operator: In, values: [a, b]}]}`
		only  = `{matchExpressions: [{key: team, operator: Exists}, {key: kubernetes.io/metadata.name, operator: In, values: [a]}]}`
		all   = `{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}`
	)
	for _, tc := range []struct {
		name, kind, rules, selector string
		held                        string
		cuts                        string
		want                        string // selector of the webhook that is left; "" if none is
		scope                       string
	}{
		{name: "everything is held", rules: maps, selector: both, held: "a b", want: both, scope: "Namespaced"},
		{name: "one namespace", rules: maps, selector: both, held: "a", cuts: `webhook "w" in namespace b`, want: only, scope: "Namespaced"},
		{name: "both namespaces", rules: maps, selector: both, cuts: `webhook "w" in namespace a, webhook "w" in namespace b`},
		{name: "all namespaces", rules: maps, selector: all, held: "a b", cuts: `webhook "w" in the whole cluster`},
		{name: "all namespaces are held", rules: maps, selector: all, held: "*", want: all, scope: "Namespaced"},
		{name: "no selector", rules: maps, selector: "null", held: "a", cuts: `webhook "w" in the whole cluster`},
		{name: "objects of the cluster", rules: nodes, selector: both, held: "a b", cuts: `webhook "w" in the whole cluster`},
		{name: "objects of the cluster are held", rules: nodes, selector: both, held: "a b cluster", want: both, scope: "*"},
		{name: "objects that may be of the cluster", rules: some, selector: both, held: "a b", cuts: `webhook "w" in the whole cluster`, want: both, scope: "Namespaced"},
		{name: "objects that may be of the cluster are held", rules: some, selector: both, held: "a b cluster", want: both, scope: "*"},
		{name: "a mutating webhook that determines who Pods run as", kind: "MutatingWebhookConfiguration", rules: strings.ReplaceAll(maps, "configmaps", "pods"), selector: both,
			held: "a b not:identities", cuts: `webhook "w" in namespace a, webhook "w" in namespace b`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kind := tc.kind
			if kind == "" {
				kind = "ValidatingWebhookConfiguration"
			}
			obj := configured(t, kind, tc.rules, tc.selector)
			held := strings.Fields(tc.held)
			cuts, err := webhook.Narrow(obj, webhook.Builtin, func(name string, d webhook.Demand, namespace string) bool {
				require.Equal(t, "w", name)
				for _, h := range held {
					switch {
					case h == "not:identities" && d.Identities:
						return false
					case h == "cluster" && len(d.Cluster) > 0, h == namespace && len(d.Cluster) == 0, h == "*":
						return !d.Identities || tc.kind == ""
					}
				}
				return false
			})
			require.NoError(t, err)
			said := make([]string, 0, len(cuts))
			for _, c := range cuts {
				said = append(said, c.String())
			}
			require.Equal(t, tc.cuts, strings.Join(said, ", "))
			if tc.want == "" {
				require.Equal(t, []any{}, obj.Object["webhooks"])
				return
			}
			want := configured(t, kind, strings.NewReplacer(`"*"}`, `"`+tc.scope+`"}`).Replace(tc.rules), tc.want)
			require.Equal(t, want.Object, obj.Object)
		})
	}
}

// A user who may edit the configuration cannot make each of its evaluations expensive.
func TestNarrowExaminesABoundedNumberOfNamespaces(t *testing.T) {
	values := make([]string, scoped.MaxTargets+1)
	for i := range values {
		values[i] = fmt.Sprintf("n%d", i)
	}
	obj := configured(t, "ValidatingWebhookConfiguration", `{apiGroups: [""], apiVersions: ["*"], resources: [configmaps], operations: [CREATE]}`,
		`{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [`+strings.Join(values, ", ")+`]}]}`)
	asked := 0
	cuts, err := webhook.Narrow(obj, webhook.Builtin, func(string, webhook.Demand, string) bool {
		asked++
		return false
	})
	require.NoError(t, err)
	require.Equal(t, []webhook.Cut{{Webhook: "w"}}, cuts)
	require.Equal(t, 1, asked)
}

func TestNarrowDoesNotExpandAConfigurationThatIsTooLarge(t *testing.T) {
	names := make([]string, 5_000)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	list := strings.Join(names, ", ")
	obj := configured(t, "ValidatingWebhookConfiguration", `{apiGroups: [`+list+`], apiVersions: ["*"], resources: [`+list+`], operations: [CREATE]}`,
		`{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [a]}]}`)
	cuts, err := webhook.Narrow(obj, func(string, string) webhook.Scope {
		require.Fail(t, "expanded")
		return webhook.Namespaced
	}, func(string, webhook.Demand, string) bool { return true })
	require.NoError(t, err)
	require.Equal(t, []webhook.Cut{{Webhook: "w"}}, cuts)
	require.Empty(t, obj.Object["webhooks"])
}

func TestAPlannedConfigurationIsNarrowedToTheLiveOne(t *testing.T) {
	const rules = `{apiGroups: [x.example.com], apiVersions: ["*"], resources: [things], operations: [CREATE], scope: "*"}`
	of := func(values string) *unstructured.Unstructured {
		return configured(t, "ValidatingWebhookConfiguration", rules, `{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [`+values+`]}]}`)
	}
	off := of("a")
	off.Object["webhooks"] = []any{}
	for _, tc := range []struct {
		live, want *unstructured.Unstructured
		cuts       int
	}{
		{of("a, b"), of("a, b"), 0}, {of("a"), of("a"), 1}, {of("a, b, c"), of("a, b"), 0}, {off, off, 2},
	} {
		held, err := webhook.Within(tc.live)
		require.NoError(t, err)
		planned := of("a, b")
		cuts, err := webhook.Narrow(planned, webhook.Builtin, held)
		require.NoError(t, err)
		require.Len(t, cuts, tc.cuts)
		require.Equal(t, tc.want.Object["webhooks"], planned.Object["webhooks"])
	}
}
