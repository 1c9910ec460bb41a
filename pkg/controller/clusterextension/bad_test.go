package clusterextension_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/remit-olm/remit/api/v1"
)

const (
	blocked = string(metav1.ConditionFalse) + " " + olmv1.ReasonBlocked
	retries = string(metav1.ConditionTrue) + " " + olmv1.ReasonRetrying
	invalid = string(metav1.ConditionFalse) + " " + olmv1.ReasonInvalidConfiguration
)

func inline(json string) func(*olmv1.ClusterExtension) {
	return func(ext *olmv1.ClusterExtension) {
		ext.Spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ClusterExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: []byte(json)}}
	}
}

// For each mistake in a ClusterExtension, a condition describes the mistake and lists valid values, and nothing is written.
func TestBadInputIsDescribed(t *testing.T) {
	t.Parallel()
	onlyAll := strings.NewReplacer("{type: SingleNamespace, supported: true}, {type: OwnNamespace, supported: true}", "{type: SingleNamespace, supported: false}")
	onlyOwn := strings.NewReplacer("{type: AllNamespaces, supported: true}, {type: SingleNamespace, supported: true}", "{type: AllNamespaces, supported: false}")
	for _, tc := range []struct {
		name      string
		manifests []string
		edit      func(*olmv1.ClusterExtension)
		want      string
		says      []string
	}{
		{"unknown package", nil, func(ext *olmv1.ClusterExtension) { ext.Spec.Source.Catalog.PackageName = "opp" }, retries, []string{`package "opp" was not found`, "similar names: op"}},
		{"no such version", nil, func(ext *olmv1.ClusterExtension) { ext.Spec.Source.Catalog.Version = ">=2.0.0" }, retries, []string{`no version in the range ">=2.0.0"`, "1.0.0"}},
		{"no such channel", nil, func(ext *olmv1.ClusterExtension) { ext.Spec.Source.Catalog.Channels = []string{"stabel"} }, retries, []string{"available channels: stable"}},
		{"no such namespace", nil, func(ext *olmv1.ClusterExtension) { ext.Spec.Namespace = "no-such-namespace" }, retries, []string{`namespace "no-such-namespace" not found`}},
		{"invalid selector", nil, func(ext *olmv1.ClusterExtension) {
			ext.Spec.Source.Catalog.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
		}, blocked, []string{"spec.source.catalog.selector", "Like"}},
		{"no catalog selected", nil, func(ext *olmv1.ClusterExtension) {
			ext.Spec.Source.Catalog.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, retries, []string{"no available ClusterCatalog matches the selector"}},
		{"unknown field", nil, inline(`{"watchNamespaces":"x"}`), invalid, []string{"spec.config.inline.watchNamespaces", "supported fields: watchNamespace"}},
		{"needless watchNamespace", []string{onlyAll.Replace(csv), crd}, inline(`{"watchNamespace":"x"}`), invalid, []string{"spec.config.inline.watchNamespace", "neither OwnNamespace nor SingleNamespace"}},
		{"missing watchNamespace", []string{onlyOwn.Replace(csv), crd}, nil, invalid, []string{"spec.config.inline.watchNamespace", "required"}},
		{"unsupported install mode", []string{onlyOwn.Replace(strings.ReplaceAll(csv, "OwnNamespace", "MultiNamespace")), crd}, nil, blocked, []string{"MultiNamespace"}},
		{"not a registry+v1 bundle", []string{configMap}, nil, blocked, []string{"no ClusterServiceVersion"}},
		{"unsupported kind", []string{csv, crd, `{apiVersion: batch/v1, kind: Job, metadata: {name: x}}`}, nil, blocked, []string{"Job"}},
		{"extension in a bundle", []string{csv, crd, `{apiVersion: olm.operatorframework.io/v1, kind: ClusterExtension, metadata: {name: x}}`}, nil, blocked, []string{"ClusterExtension"}},
		{"object over 1.5 MiB", []string{csv, crd, `{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: "` + strings.Repeat("x", 3<<19) + `"}}`}, nil, blocked, []string{"bytes"}},
		{"missing CRD", []string{csv}, nil, blocked, []string{"things."}},
		{"too old Kubernetes", []string{strings.Replace(csv, "  displayName: op", "  minKubeVersion: 9.0.0", 1), crd}, nil, blocked, []string{"minKubeVersion (9.0.0)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := given(t)
			w.grantAll()
			if tc.manifests == nil {
				tc.manifests = []string{csv, crd}
			}
			w.publish("1.0.0", "", tc.manifests...)
			edits := []func(*olmv1.ClusterExtension){}
			if tc.edit != nil {
				edits = append(edits, tc.edit)
			}
			from := w.logEnd()
			w.install(edits...)
			value, reason, _ := strings.Cut(tc.want, " ")
			text := w.await(olmv1.TypeProgressing, metav1.ConditionStatus(value), reason)
			for _, part := range tc.says {
				require.Contains(t, text, part)
			}
			w.await(olmv1.TypeInstalled, metav1.ConditionFalse, olmv1.ReasonFailed)
			require.Empty(t, w.requests(from, w.sentAs))
		})
	}
}

// A kind that the cluster does not serve is reported together with all other findings. The install resumes when the kind
// is served.
func TestWaitsForUnservedKinds(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.enroll()
	w.publish("1.0.0", "", csv, crd, `{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: rule}, spec: {}}`)
	w.install()
	text := w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	require.Contains(t, text, "api-server resource not found installing PrometheusRule rule")
	require.Contains(t, text, "pre-authorization failed")
	require.False(t, w.exists(&corev1.ServiceAccount{}, "op"))
	w.grantAll()
	w.await(olmv1.TypeAuthorized, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	require.NotContains(t, w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying), "pre-authorization failed")
	w.apply(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: PrometheusRule, plural: prometheusrules, singular: prometheusrule, listKind: PrometheusRuleList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`)
	w.awaitInstalled("1.0.0")
}

// Two catalogs that provide the same package with the same priority are reported.
func TestRefusesATieOfCatalogs(t *testing.T) {
	t.Parallel()
	w, other := given(t), given(t)
	w.publish("1.0.0", "", csv, crd)
	other.publish("1.0.0", "", csv, crd)
	w.install(func(ext *olmv1.ClusterExtension) {
		ext.Spec.Source.Catalog.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: olmv1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{w.name, other.name},
		}}}
	})
	text := w.await(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying)
	require.Contains(t, text, w.name)
	require.Contains(t, text, other.name)
	require.Contains(t, text, "same priority")
}
