package together

import (
	"encoding/json"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/escape/forge"
)

const (
	pkg = "hostile"
	csv = "hostile.v1"
	// manyContainers is the number of containers in a CSV of 90 KB.
	manyContainers = 3_000
	// emptyEntries is the number of empty entries in an object of 1.4 MB.
	emptyEntries = 460_000
	// tooMany is what the status of such an object says.
	tooMany = "more than 20000 entries of lists and objects together"
	// manyChannels is the number of channels of a catalog of 0.93 MB, whose description has longText bytes.
	manyChannels, longText = 3_000, 450 << 10
)

// attack is a row of the table in docs/adr/0066: objects whose sizes are multiplied.
type attack struct {
	name string
	// start creates the objects, and refused checks that all of them have been handled.
	start   func(tn *env.Tenant)
	refused func(tn *env.Tenant, c *assert.CollectT)
}

// attacks returns all attacks.
func attacks(images *registry.Server) []attack {
	return []attack{
		{"containers × limits", multiplying(containers(), limits(1_000)), planSays("would need at least", "use fewer containers")},
		{"containers × too many limits", multiplying(containers(), limits(5_000)), planSays("at most 1000 are allowed")},
		{"Deployments × annotations in a bundle", multiplying(deployments(), nil), planSays("would need at least")},
		{"Deployments × annotations in a CSV", creating(deployments()), csvSays("would need at least")},
		{"tolerations × tolerations", multiplying(forge.NewCSV(csv).PodSpec(tolerations(15_000), "tolerations"), configTolerations(1_000)), planCompletes},
		{"empty tolerations of a CSV", creating(forge.NewCSV(csv).PodSpec(empty(), "tolerations")), csvSays(tooMany)},
		{"empty tolerations of Subscriptions", emptySubscriptions, subscriptionsSay(tooMany)},
		{"empty tolerations of a CatalogSource", emptySource, sourceSays(tooMany)},
		{"groups × resources of a webhook", creating(webhooks()), csvSays("at most")},
		{"channels × description", channels, listed},
		{"members × value of a constraint", members, unsatisfiable},
		{"containers × limits of a ClusterExtension", extending(images, containers(), limits(1_000)), extensionSays("would need at least")},
	}
}

// multiplying installs a CSV from a catalog, with a config.
func multiplying(of forge.CSV, config *operatorsv1alpha1.SubscriptionConfig) func(tn *env.Tenant) {
	return func(tn *env.Tenant) {
		publish(tn, forge.Catalog(forge.Of(pkg, of)))
		tn.Subscribe("catalog", pkg, forge.Channel, func(spec *operatorsv1alpha1.SubscriptionSpec) { spec.Config = config })
	}
}

// creating creates a CSV without a catalog.
func creating(of forge.CSV) func(tn *env.Tenant) {
	return func(tn *env.Tenant) {
		obj := (&unstructured.Unstructured{Object: of.Object}).DeepCopy()
		obj.SetNamespace(tn.Namespace)
		create(tn, obj)
	}
}

// accepting limits how many large objects are created at the same time. The API server needs seconds of CPU time for each, and ends a
// request after half a minute: if all of them share two cores with other programs, none is ever created.
var accepting = make(chan struct{}, 2)

// create creates a large object.
func create(tn *env.Tenant, obj *unstructured.Unstructured) {
	tn.T.Helper()
	accepting <- struct{}{}
	defer func() { <-accepting }()
	tn.Eventually(func(c *assert.CollectT) {
		err := tn.Cluster.Client.Create(tn.T.Context(), obj.DeepCopy())
		assert.NoError(c, client.IgnoreAlreadyExists(err))
	})
}

// extending installs a CSV through a ClusterExtension that has the name of the tenant's namespace.
func extending(images *registry.Server, of forge.CSV, config *operatorsv1alpha1.SubscriptionConfig) func(tn *env.Tenant) {
	return func(tn *env.Tenant) {
		x := &env.Extension{T: tn.T, Cluster: tn.Cluster, Name: tn.Namespace}
		x.Create(scoped.ExtensionEnrollment(x.User(), x.Cluster.Home, scoped.ImpersonationConstrained)...)
		tn.Cluster.ServeCatalog(tn.T, images, x.Name, forge.Catalog(forge.Of(pkg, of)))
		inline, err := json.Marshal(map[string]any{"watchNamespace": tn.Namespace, "deploymentConfig": config})
		require.NoError(tn.T, err)
		ext := env.NewClusterExtension(x.Name, pkg)
		ext.Spec.Source.Catalog.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: x.Name}}
		ext.Spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ClusterExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: inline}}
		x.Create(ext)
	}
}

func publish(tn *env.Tenant, content string) {
	tn.T.Helper()
	tn.Create(&corev1.ConfigMap{ObjectMeta: tn.Meta("content"), Data: map[string]string{"catalog.yaml": content}})
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta("catalog"),
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "content"}})
}

func containers() forge.CSV {
	list := make([]any, manyContainers)
	for i := range list {
		list[i] = map[string]any{"name": fmt.Sprint("c", i), "image": "i"}
	}
	return forge.NewCSV(csv).PodSpec(list, "containers")
}

func limits(n int) *operatorsv1alpha1.SubscriptionConfig {
	list := corev1.ResourceList{}
	for i := range n {
		list[corev1.ResourceName(fmt.Sprint("example.com/r", i))] = resource.MustParse("1")
	}
	return &operatorsv1alpha1.SubscriptionConfig{Resources: &corev1.ResourceRequirements{Limits: list}}
}

// deployments returns a CSV with many Deployments, and with as many annotations as Remit keeps, which are almost as large as the API
// server allows. Those without a prefix are copied to the Pods.
func deployments() forge.CSV {
	annotations := map[string]any{}
	for i := range 900 {
		annotations[fmt.Sprintf("a%05d", i)] = strings.Repeat("some text, 20 bytes.", 12)
	}
	list := make([]any, 1_000)
	for i := range list {
		name := fmt.Sprint("d", i)
		list[i] = map[string]any{"name": name, "spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": name}}, "template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": name}},
			"spec":     map[string]any{"serviceAccountName": forge.ServiceAccount, "containers": []any{map[string]any{"name": "c", "image": forge.Image}}},
		}}}
	}
	return forge.NewCSV(csv).Set(annotations, "metadata", "annotations").Set(list, "spec", "install", "spec", "deployments")
}

// webhooks returns a CSV of about 1.4 MB with a webhook for many groups and resources.
func webhooks() forge.CSV {
	list := func(prefix string) []any {
		out := make([]any, 20_000) // both lists together have fewer values than a ClusterServiceVersion may have
		for i := range out {
			out[i] = fmt.Sprintf("%s%05d", prefix, i)
		}
		return out
	}
	return forge.NewCSV(csv).Set([]any{map[string]any{
		"type": "ValidatingAdmissionWebhook", "generateName": "a.b.example.com", "deploymentName": forge.Deployment, "admissionReviewVersions": []any{"v1"}, "sideEffects": "None",
		"containerPort": int64(443), "rules": []any{map[string]any{"apiGroups": list("g"), "apiVersions": []any{"v1"}, "resources": list("r"), "operations": []any{"CREATE"}}},
	}}, "spec", "webhookdefinitions")
}

func empty() []any {
	out := make([]any, emptyEntries)
	for i := range out {
		out[i] = map[string]any{}
	}
	return out
}

func tolerations(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = map[string]any{"key": fmt.Sprintf("%05d", i), "operator": "Exists"}
	}
	return out
}

func configTolerations(n int) *operatorsv1alpha1.SubscriptionConfig {
	out := &operatorsv1alpha1.SubscriptionConfig{}
	for i := range n {
		out.Tolerations = append(out.Tolerations, corev1.Toleration{Key: fmt.Sprintf("config%05d", i), Operator: corev1.TolerationOpExists})
	}
	return out
}

func emptySubscriptions(tn *env.Tenant) {
	publish(tn, forge.Catalog(forge.Of(pkg, forge.NewCSV(csv))))
	for i := range 3 {
		createEmpty(tn, operatorsv1alpha1.SubscriptionKind, fmt.Sprint("large", i), map[string]any{
			"name": pkg, "channel": forge.Channel, "source": "catalog", "sourceNamespace": tn.Namespace, "config": map[string]any{"tolerations": empty()},
		})
	}
}

func emptySource(tn *env.Tenant) {
	createEmpty(tn, operatorsv1alpha1.CatalogSourceKind, "catalog", map[string]any{
		"sourceType": "grpc", "image": "catalogs.test/none", "grpcPodConfig": map[string]any{"tolerations": empty()},
	})
}

func createEmpty(tn *env.Tenant, kind, name string, spec map[string]any) {
	tn.T.Helper()
	create(tn, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": operatorsv1alpha1.SchemeGroupVersion.String(), "kind": kind, "metadata": map[string]any{"namespace": tn.Namespace, "name": name}, "spec": spec,
	}})
}

// channels publishes a package whose channels all have the same head with a long description.
func channels(tn *env.Tenant) {
	tn.T.Helper()
	var out strings.Builder
	encode := json.NewEncoder(&out)
	add := func(object map[string]any) { require.NoError(tn.T, encode.Encode(object)) }
	add(map[string]any{"schema": "olm.package", "name": pkg, "defaultChannel": "c0"})
	for i := range manyChannels {
		add(map[string]any{"schema": "olm.channel", "package": pkg, "name": fmt.Sprint("c", i), "entries": []any{map[string]any{"name": csv}}})
	}
	metadata := map[string]any{"displayName": "x", "description": strings.Repeat("x", longText)}
	add(map[string]any{"schema": "olm.bundle", "package": pkg, "name": csv, "image": "images.test/none", "properties": []any{
		map[string]any{"type": "olm.package", "value": map[string]any{"packageName": pkg, "version": "1.0.0"}},
		map[string]any{"type": "olm.csv.metadata", "value": metadata},
	}})
	publish(tn, out.String())
}

// members publishes versions with a constraint of nearly 128 KiB, each member of which is a requirement of its own.
func members(tn *env.Tenant) {
	tn.T.Helper()
	var out strings.Builder
	encode := json.NewEncoder(&out)
	add := func(object map[string]any) { require.NoError(tn.T, encode.Encode(object)) }
	var all []any
	for i := range 900 {
		all = append(all, map[string]any{"package": map[string]any{"packageName": fmt.Sprintf("p%03d-%s", i, strings.Repeat("x", 60)), "versionRange": ">1.0.0"}})
	}
	var entries []any
	for i := range 7 {
		name := fmt.Sprintf("hostile.v1.0.%d", i)
		entries = append(entries, map[string]any{"name": name})
		if i > 0 {
			entries[i] = map[string]any{"name": name, "replaces": fmt.Sprintf("hostile.v1.0.%d", i-1)}
		}
		add(map[string]any{"schema": "olm.bundle", "package": pkg, "name": name, "image": "images.test/none", "properties": []any{
			map[string]any{"type": "olm.package", "value": map[string]any{"packageName": pkg, "version": fmt.Sprintf("1.0.%d", i)}},
			map[string]any{"type": "olm.constraint", "value": map[string]any{"all": map[string]any{"constraints": all}}},
		}})
	}
	add(map[string]any{"schema": "olm.package", "name": pkg, "defaultChannel": "c"})
	add(map[string]any{"schema": "olm.channel", "package": pkg, "name": "c", "entries": entries})
	publish(tn, out.String())
	tn.Subscribe("catalog", pkg, "c")
}

// unsatisfiable checks that the Subscription has been resolved, without a result.
func unsatisfiable(tn *env.Tenant, c *assert.CollectT) {
	sub := &operatorsv1alpha1.Subscription{}
	assert.NoError(c, tn.Get(pkg, sub))
	got := sub.Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed)
	assert.Equal(c, corev1.ConditionTrue, got.Status)
	assert.Contains(c, got.Message, "requires an operator")
}

// planSays returns a check of the message of the InstallPlan.
func planSays(words ...string) func(*env.Tenant, *assert.CollectT) {
	return func(tn *env.Tenant, c *assert.CollectT) {
		got := tn.Plan(c).Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
		assert.Equal(c, corev1.ConditionFalse, got.Status)
		for _, w := range words {
			assert.Contains(c, got.Message, w)
		}
	}
}

// planCompletes is the check of lists that are compared in linear time, and fit into the objects.
func planCompletes(tn *env.Tenant, c *assert.CollectT) {
	assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseComplete, tn.Plan(c).Status.Phase)
}

func csvSays(text string) func(*env.Tenant, *assert.CollectT) {
	return func(tn *env.Tenant, c *assert.CollectT) {
		got := tn.CSV(c, csv)
		assert.Equal(c, operatorsv1alpha1.CSVPhaseFailed, got.Status.Phase)
		assert.Contains(c, got.Status.Message, text)
	}
}

func subscriptionsSay(text string) func(*env.Tenant, *assert.CollectT) {
	return func(tn *env.Tenant, c *assert.CollectT) {
		for i := range 3 {
			sub := &operatorsv1alpha1.Subscription{}
			assert.NoError(c, tn.Get(fmt.Sprint("large", i), sub))
			assert.Contains(c, sub.Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed).Message, text)
		}
	}
}

func sourceSays(text string) func(*env.Tenant, *assert.CollectT) {
	return func(tn *env.Tenant, c *assert.CollectT) {
		source := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", source))
		assert.Equal(c, operatorsv1alpha1.CatalogSourceSpecInvalidError, source.Status.Reason)
		assert.Contains(c, source.Status.Message, text)
	}
}

func extensionSays(text string) func(*env.Tenant, *assert.CollectT) {
	return func(tn *env.Tenant, c *assert.CollectT) {
		ext := &olmv1.ClusterExtension{}
		assert.NoError(c, tn.Cluster.Client.Get(tn.T.Context(), client.ObjectKey{Name: tn.Namespace}, ext))
		got := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing)
		if assert.NotNil(c, got) {
			assert.Contains(c, got.Message, text)
		}
	}
}

// listed checks that package-server serves the package with all channels.
func listed(tn *env.Tenant, c *assert.CollectT) {
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(packagesv1.GroupVersion.WithKind(packagesv1.KindPackageManifest))
	assert.NoError(c, tn.Get(pkg, got))
	all, _, err := unstructured.NestedSlice(got.Object, "status", "channels")
	assert.NoError(c, err)
	assert.Len(c, all, manyChannels)
}
