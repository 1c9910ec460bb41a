package env

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Releases returns a file-based catalog, as JSON, of small operators that do nothing, with one version per line:
//
//	a.v2.0.0 stable,beta replaces=a.v1.0.0 skips=a.v1.5.0 range=<2.0.0 needs=b:>=1.0.0 kind=example.com/v1/Thing reads=secrets everywhere=nodes global guarded deprecated=why
//
// The package is the part before ".v"; the default channel is the first channel of the package's first line. Every
// operator requests permission to read ConfigMaps. "reads" adds permission to read another resource in the target
// namespaces, and "everywhere" cluster-wide. "kind" names a kind that the version requires. A version with
// "global" supports only AllNamespaces, so it fails in a namespace whose OperatorGroup has targets. A version with "converts"
// also serves a webhook that converts the objects of its CustomResourceDefinition. A version with "guarded" contains a
// PodDisruptionBudget with the name of the package, which its InstallPlan writes last.
func Releases(lines ...string) string { return ReleasesWith(nil, lines...) }

// Brings maps versions to the CustomResourceDefinitions that they contain and own.
type Brings map[string]*apiextensionsv1.CustomResourceDefinition

// ReleasesWith is like Releases, but each version that is a key in brings also contains the corresponding
// CustomResourceDefinition.
func ReleasesWith(brings Brings, lines ...string) string {
	var out strings.Builder
	encode := json.NewEncoder(&out)
	seen := map[string]bool{}
	channels := map[string][]map[string]any{}
	var deprecations []map[string]any
	var order []string
	write := func(v map[string]any) {
		if err := encode.Encode(v); err != nil {
			panic(err) // the values come from a test
		}
	}
	for _, line := range lines {
		words := strings.Fields(line)
		pkg, version, _ := strings.Cut(words[0], ".v")
		named := strings.Split(words[1], ",")
		if !seen[pkg] {
			seen[pkg] = true
			write(map[string]any{"schema": "olm.package", "name": pkg, "defaultChannel": named[0]})
		}
		r := release{name: words[0], pkg: pkg, version: version, entry: map[string]any{"name": words[0]}, brings: brings[words[0]]}
		for _, word := range words[2:] {
			r.read(word)
		}
		for _, c := range named {
			key := pkg + " " + c
			if channels[key] == nil {
				order = append(order, key)
			}
			channels[key] = append(channels[key], r.entry)
		}
		if r.deprecated != "" {
			deprecations = append(deprecations, map[string]any{"schema": "olm.deprecations", "package": pkg, "entries": []any{
				map[string]any{"reference": map[string]any{"schema": "olm.bundle", "name": r.name}, "message": r.deprecated},
			}})
		}
		write(map[string]any{"schema": "olm.bundle", "name": r.name, "package": pkg, "properties": r.properties()})
	}
	for _, key := range order {
		pkg, channel, _ := strings.Cut(key, " ")
		write(map[string]any{"schema": "olm.channel", "name": channel, "package": pkg, "entries": channels[key]})
	}
	for _, d := range deprecations {
		write(d)
	}
	return out.String()
}

// release is one line of the argument of Releases.
type release struct {
	name, pkg, version, deprecated string
	entry                          map[string]any
	needs                          []map[string]any
	kinds                          []map[string]any
	reads, everywhere              []string
	global, converts, guarded      bool
	brings                         *apiextensionsv1.CustomResourceDefinition
}

func (r *release) read(word string) {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "replaces":
		r.entry["replaces"] = value
	case "skips":
		r.entry["skips"] = strings.Split(value, ",")
	case "range":
		r.entry["skipRange"] = value
	case "needs":
		pkg, versions, _ := strings.Cut(value, ":")
		r.needs = append(r.needs, map[string]any{"packageName": pkg, "versionRange": versions})
	case "kind":
		parts := strings.Split(value, "/")
		r.kinds = append(r.kinds, map[string]any{"group": parts[0], "version": parts[1], "kind": parts[2]})
	case "reads":
		r.reads = append(r.reads, value)
	case "everywhere":
		r.everywhere = append(r.everywhere, value)
	case "global":
		r.global = true
	case "converts":
		r.global, r.converts = true, true
	case "guarded":
		r.guarded = true
	case "deprecated":
		r.deprecated = value
	default:
		panic("unknown word: " + word) // the text comes from a test
	}
}

func (r *release) properties() []map[string]any {
	property := func(t string, v any) map[string]any { return map[string]any{"type": t, "value": v} }
	csv, err := json.Marshal(r.csv())
	if err != nil {
		panic(err) // the values come from a test
	}
	out := []map[string]any{
		property("olm.package", map[string]any{"packageName": r.pkg, "version": r.version}),
		property("olm.bundle.object", map[string]any{"data": csv}),
	}
	for _, n := range r.needs {
		out = append(out, property("olm.package.required", n))
	}
	for _, k := range r.kinds {
		out = append(out, property("olm.gvk.required", k))
	}
	if r.guarded {
		out = append(out, property("olm.bundle.object", map[string]any{"data": fmt.Appendf(nil,
			`{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": %q}, "spec": {"maxUnavailable": 1}}`, r.pkg)}))
	}
	if r.brings == nil {
		return out
	}
	for _, v := range r.owned() {
		out = append(out, property("olm.gvk", map[string]any{"group": r.brings.Spec.Group, "version": v.Name, "kind": r.brings.Spec.Names.Kind}))
	}
	crd := r.brings.DeepCopy()
	crd.TypeMeta = metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"}
	text, err := json.Marshal(crd)
	if err != nil {
		panic(err) // the values come from a test
	}
	return append(out, property("olm.bundle.object", map[string]any{"data": text}))
}

func (r *release) csv() *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{
		TypeMeta:   metav1.TypeMeta{APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: operatorsv1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{Name: r.name},
	}
	if err := csv.Spec.Version.UnmarshalJSON([]byte(fmt.Sprintf("%q", r.version))); err != nil {
		panic(err) // the text comes from a test
	}
	csv.Spec.DisplayName = r.pkg
	for _, mode := range []operatorsv1alpha1.InstallModeType{"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"} {
		csv.Spec.InstallModes = append(csv.Spec.InstallModes, operatorsv1alpha1.InstallMode{Type: mode, Supported: !r.global || mode == "AllNamespaces"})
	}
	labels := map[string]string{"app": r.pkg}
	csv.Spec.InstallStrategy.StrategyName = "deployment"
	strategy := &csv.Spec.InstallStrategy.StrategySpec
	strategy.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{Name: r.pkg, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: r.pkg,
			Containers:         []corev1.Container{{Name: "manager", Image: "images.test/" + r.pkg + ":" + r.version}},
		}},
	}}}
	for _, v := range r.owned() {
		csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned,
			operatorsv1alpha1.CRDDescription{Name: r.brings.Name, Version: v.Name, Kind: r.brings.Spec.Names.Kind})
	}
	if r.converts {
		none := admissionregistrationv1.SideEffectClassNone
		csv.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{
			Type: operatorsv1alpha1.ConversionWebhook, GenerateName: r.pkg, DeploymentName: r.pkg, ContainerPort: 443, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, ConversionCRDs: []string{r.brings.Name},
		}}
	}
	strategy.Permissions = r.reading(append([]string{"configmaps"}, r.reads...))
	if len(r.everywhere) > 0 {
		strategy.ClusterPermissions = r.reading(r.everywhere)
	}
	return csv
}

// reading returns permission for the operator to read resources of the core group.
func (r *release) reading(resources []string) []operatorsv1alpha1.StrategyDeploymentPermissions {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get"}}}
	return []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: r.pkg, Rules: rules}}
}

// owned returns the served versions of the release's CustomResourceDefinition.
func (r *release) owned() []apiextensionsv1.CustomResourceDefinitionVersion {
	if r.brings == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.brings.Spec.Versions), func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Served })
}

// Publish creates or updates a ConfigMap with the catalog of Releases. For a new ConfigMap, it also creates the
// CatalogSource.
func (tn *Tenant) Publish(name string, lines ...string) { tn.PublishWith(name, nil, lines...) }

// PublishWith creates or updates a ConfigMap with the catalog of ReleasesWith. For a new ConfigMap, it also creates the
// CatalogSource.
func (tn *Tenant) PublishWith(name string, brings Brings, lines ...string) {
	tn.T.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: tn.Meta(name), Data: map[string]string{"catalog.json": ReleasesWith(brings, lines...)}}
	err := tn.Cluster.Client.Create(tn.T.Context(), cm)
	if apierrors.IsAlreadyExists(err) {
		require.NoError(tn.T, tn.Cluster.Client.Patch(tn.T.Context(), cm, client.Merge))
		return
	}
	require.NoError(tn.T, err)
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta(name), Spec: operatorsv1alpha1.CatalogSourceSpec{
		SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: name,
	}})
}

// GrantCatalog allows the account to read the ConfigMap of a catalog, but not to watch it. ReleaseRules allow both.
func (tn *Tenant) GrantCatalog(name string) {
	tn.T.Helper()
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name}, Verbs: []string{"get"}})
}

// GrantReleases grants the account the ReleaseRules.
func (tn *Tenant) GrantReleases() {
	tn.T.Helper()
	tn.Grant(tn.Namespace, ReleaseRules()...)
}

// ReleaseRules returns the permissions that the operators of Releases need in their namespace, including for upgrades. It does not
// return those that "reads" and "everywhere" add.
func ReleaseRules() []rbacv1.PolicyRule {
	all := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "create", "patch", "delete"}}
	}
	return []rbacv1.PolicyRule{
		all("", "serviceaccounts"), all("apps", "deployments"), all(rbacv1.GroupName, "roles", "rolebindings"),
		all(operatorsv1alpha1.GroupName, "clusterserviceversions", "installplans"),
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "watch"}},
		{APIGroups: []string{operatorsv1alpha1.GroupName}, Resources: []string{"operatorconditions"}, Verbs: []string{"get", "update", "patch"}},
	}
}
