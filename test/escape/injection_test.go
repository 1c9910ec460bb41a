package escape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/injection"
)

// injected returns ClusterServiceVersions, each of which contains one of injection.Strings in one place, for every nth place from the first
// one. Package test/injection covers all places without a cluster. Objects have different names, so that all can be installed in one namespace.
func (s *scene) injected(prefix string, first, nth int) (out []*operatorsv1alpha1.ClusterServiceVersion) {
	s.T.Helper()
	var places []injection.Place
	for _, p := range injection.Places[operatorsv1alpha1.ClusterServiceVersion]() {
		if strings.HasPrefix(p.Path, ".spec") && !strings.Contains(p.Path, ".template.spec") {
			places = append(places, p)
		}
	}
	for i := first; i < len(places); i += nth {
		name := fmt.Sprintf("%s%d", prefix, i)
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		require.NoError(s.T, json.Unmarshal([]byte(forge.NewCSV(name+".v1.0.0").RenameObjects(name).String()), csv))
		places[i].Set(csv, injection.Some(i)[i%2])
		if _, err := json.Marshal(csv); err == nil {
			out = append(out, csv)
		}
	}
	require.Greater(s.T, len(out), 10)
	return out
}

// packagesOf publishes each ClusterServiceVersion in a package of its own, which is named like its Deployment was, and three packages whose blobs
// contain a document. It returns the text of the catalog and the names of the packages.
func (s *scene) packagesOf(all []*operatorsv1alpha1.ClusterServiceVersion) (text string, packages []string) {
	s.T.Helper()
	var bundles []*forge.Bundle
	add := func(name, manifest string) {
		bundles = append(bundles, &forge.Bundle{Package: name, Name: name + ".v1.0.0", Manifests: []string{manifest}})
		packages = append(packages, name)
	}
	for _, csv := range all {
		raw, err := json.Marshal(csv)
		require.NoError(s.T, err)
		name, _, _ := strings.Cut(csv.Name, ".")
		add(name, string(raw))
	}
	for _, name := range []string{"requires", "deprecated", "keys"} {
		csv := forge.NewCSV(name + ".v1.0.0").RenameObjects(name)
		if name == "keys" { // all messages list keys in reserved domains that were omitted
			csv.PodMetadata(map[string]any{"x.k8s.io/x\x1b[2J": "a"}, "annotations")
		}
		add(name, csv.String())
	}
	document := injection.Strings()[0]
	encoded, err := json.Marshal(document)
	require.NoError(s.T, err)
	text = forge.Catalog(bundles...)
	text += fmt.Sprintf(`{"schema": "olm.deprecations", "package": "deprecated", "entries": [{"reference": {"schema": "olm.package"}, "message": %s}]}`+"\n", encoded)
	const version = `{"type":"olm.package","value":{"packageName":"requires","version":"1.0.0"}}`
	require.Contains(s.T, text, version)
	text = strings.Replace(text, version, version+fmt.Sprintf(`,{"type":"olm.constraint","value":{"failureMessage":%[1]s,"gvk":{"group":"none.example.com","version":"v1","kind":%[1]s}}}`, encoded), 1)
	return text, packages
}

// checkStatuses asserts that no message or reason in a status or an event of these objects, and no report, contains what a bundle could have
// put there. It returns how many of them quote the name of the object in the strings.
func (s *scene) checkStatuses(kinds ...schema.GroupVersionKind) (quoted int) {
	s.T.Helper()
	check := func(where, text string) {
		assert.NoError(s.T, injection.CheckText(text), where)
		if strings.Contains(text, injection.Stranger) {
			quoted++
		}
	}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		require.NoError(s.T, cluster.Client.List(s.T.Context(), list))
		for _, obj := range list.Items {
			if obj.GetNamespace() == s.Namespace || obj.GetNamespace() == "" && strings.Contains(obj.GetName(), s.Namespace) {
				eachMessage(obj.Object["status"], func(text string) { check(kind.Kind+" "+obj.GetName(), text) })
			}
		}
	}
	events, reports := &corev1.EventList{}, &corev1.ConfigMapList{}
	require.NoError(s.T, cluster.Client.List(s.T.Context(), events))
	for _, e := range events.Items {
		if e.Namespace == s.Namespace || strings.Contains(e.InvolvedObject.Name, s.Namespace) {
			check("event of "+e.InvolvedObject.Kind+" "+e.InvolvedObject.Name, e.Message+"\n"+e.Reason)
		}
	}
	s.list(reports)
	for _, report := range reports.Items {
		for key, text := range report.Data {
			if strings.HasPrefix(report.Name, names.ReportPrefix) {
				assert.NoError(s.T, injection.CheckDocuments(text), "%s of %s", key, report.Name)
			}
		}
	}
	return quoted
}

// eachMessage calls a function for each message and reason in a status.
func eachMessage(value any, each func(text string)) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			eachMessage(v, each)
		}
	case map[string]any:
		for key, v := range value {
			text, isString := v.(string)
			switch {
			case !isString:
				eachMessage(v, each)
			case key == "message" || key == "reason":
				each(text)
			}
		}
	}
}

// checkCommand runs the command line as the cluster administrator and asserts that what it prints is what it means.
func (s *scene) checkCommand(args ...string) {
	s.T.Helper()
	cmd := exec.CommandContext(s.T.Context(), filepath.Join(cluster.Bin, "kubectl-remit"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code reports what is missing
	require.NotEmpty(s.T, stdout.String()+stderr.String(), args)
	assert.NoError(s.T, injection.CheckText(stderr.String()), "standard error of %q", args)
	if args[0] == "rbac" || args[len(args)-2] == "-o" {
		assert.NoError(s.T, injection.CheckDocuments(stdout.String()), "%q", args)
	} else {
		assert.NoError(s.T, injection.CheckText(stdout.String()), "%q", args)
	}
}

// injectIntoSubscriptions subscribes to each package and creates ClusterServiceVersions as a user.
func (s *scene) injectIntoSubscriptions() {
	og := s.group(s.Namespace)
	text, packages := s.packagesOf(s.injected("p", 0, 9))
	s.publishText(text)
	for _, name := range packages {
		s.Create(&operatorsv1alpha1.Subscription{ObjectMeta: s.Meta(name), Spec: &operatorsv1alpha1.SubscriptionSpec{
			Package: name, Channel: forge.Channel, CatalogSource: "catalog", CatalogSourceNamespace: s.Namespace}})
	}
	var direct []*operatorsv1alpha1.ClusterServiceVersion
	for _, csv := range s.injected("u", 4, 9) {
		csv.Namespace = s.Namespace
		if err := cluster.Client.Create(s.T.Context(), csv); err == nil {
			direct = append(direct, csv)
		} else {
			require.True(s.T, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err), "%v", err)
		}
	}
	require.Greater(s.T, len(direct), 5)
	s.Eventually(func(c *assert.CollectT) {
		for _, name := range packages {
			sub := &operatorsv1alpha1.Subscription{}
			assert.NoError(c, s.Get(name, sub))
			failed := sub.Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed).Status == corev1.ConditionTrue
			assert.True(c, failed || sub.Status.InstallPlanRef != nil, name)
		}
		for _, csv := range direct {
			assert.NotEmpty(c, s.CSV(c, csv.Name).Status.Phase, csv.Name)
		}
	})
	s.settle()
	group := operatorsv1alpha1.SchemeGroupVersion
	quoted := s.checkStatuses(group.WithKind("SubscriptionList"), group.WithKind("InstallPlanList"), group.WithKind("ClusterServiceVersionList"), group.WithKind("CatalogSourceList"),
		schema.GroupVersionKind{Group: group.Group, Version: "v1", Kind: "OperatorGroupList"}, schema.GroupVersionKind{Group: group.Group, Version: "v1", Kind: "OperatorList"})
	require.Greater(s.T, quoted, 10, "messages quote the strings")
	s.checkCommand("status", "-n", s.Namespace)
	s.checkCommand("status", "-n", s.Namespace, "-o", "yaml")
	for _, name := range packages {
		s.checkCommand("preflight", "subscription/"+name, "-n", s.Namespace)
		s.checkCommand("grant", "subscription/"+name, "-n", s.Namespace)
		s.checkCommand("uninstall", name, "-n", s.Namespace, "--dry-run")
	}
	plans := &operatorsv1alpha1.InstallPlanList{}
	s.list(plans)
	require.NotEmpty(s.T, plans.Items)
	for i := range plans.Items {
		s.checkCommand("plan", "show", plans.Items[i].Name, "-n", s.Namespace)
		s.checkCommand("plan", "show", plans.Items[i].Name, "-n", s.Namespace, "-o", "yaml")
		s.checkCommand("preflight", "installplan/"+plans.Items[i].Name, "-n", s.Namespace, "-o", "report")
		s.checkCommand("grant", s.Namespace+"/"+plans.Items[i].Name)
		s.checkCommand("grant", s.Namespace+"/"+plans.Items[i].Name, "-o", "yaml")
	}
	s.checkAdopt()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, names.AnnotationManagedBy, names.ManagedByOLM))
	require.NoError(s.T, cluster.Client.Patch(s.T.Context(), og, patch))
	s.checkAdopt()
}

func (s *scene) checkAdopt() {
	s.checkCommand("adopt", "-n", s.Namespace)
	s.checkCommand("adopt", "-n", s.Namespace, "-o", "yaml")
}

// configsWithDocuments returns configurations of ClusterExtensions that contain a document in a key or a value.
func configsWithDocuments() (out []string) {
	document, _ := json.Marshal(injection.Strings()[0])
	for _, config := range []string{`{%s: 1}`, `{"watchNamespace": %s}`, `{"deploymentConfig": {%s: 1}}`, `{"deploymentConfig": {"annotations": {%s: "a"}}}`,
		`{"deploymentConfig": {"nodeSelector": {%s: "a"}}}`, `{"deploymentConfig": {"env": [{%s: "a"}]}}`, `{"deploymentConfig": {"volumes": [{"name": %s}]}}`} {
		out = append(out, fmt.Sprintf(config, document))
	}
	return out
}

// injectIntoExtensions creates a ClusterExtension for each package and each configuration.
func (s *scene) injectIntoExtensions() {
	text, packages := s.packagesOf(s.injected("p", 3, 14))
	catalog := s.clusterCatalog(text)
	var all []*extension
	add := func(name, pkg, config string) {
		x := s.extensionNamed(s.Namespace + "-" + name)
		x.catalog = catalog
		x.enroll()
		x.grant(p0())
		ext := x.as("")
		ext.Spec.Source.Catalog.PackageName = pkg
		if config != "" {
			ext.Spec.Config.Inline = &apiextensionsv1.JSON{Raw: []byte(config)}
		}
		x.create(ext)
		all = append(all, x)
	}
	for _, name := range packages {
		add(name, name, "")
	}
	for i, config := range configsWithDocuments() {
		add(fmt.Sprintf("config-%d", i), "deprecated", config)
	}
	s.Eventually(func(c *assert.CollectT) {
		for _, x := range all {
			assert.Contains(c, []string{olmv1.ReasonBlocked, olmv1.ReasonRetrying, olmv1.ReasonSucceeded, olmv1.ReasonInvalidConfiguration}, condition(x.Get(), olmv1.TypeProgressing).Reason, x.Name)
		}
	})
	s.settleExtensions()
	quoted := s.checkStatuses(olmv1.GroupVersion.WithKind("ClusterExtensionList"), olmv1.GroupVersion.WithKind("ClusterCatalogList"))
	require.Greater(s.T, quoted, 10, "messages quote the strings")
	s.checkCommand("status", "-n", s.Namespace)
	s.checkCommand("status", "-n", s.Namespace, "-o", "yaml")
	for _, x := range all {
		s.checkCommand("preflight", "clusterextension", x.Name)
		s.checkCommand("rbac", "clusterextension", x.Name)
		s.checkCommand("grant", "clusterextension/"+x.Name)
		s.checkCommand("grant", "clusterextension/"+x.Name, "-o", "yaml")
		s.checkCommand("enroll", "clusterextension", x.Name, "--grant")
	}
}

// injections returns rows in which bundles, catalogs and configurations contain strings that are documents, comments or terminal sequences.
func injections() []row {
	return []row{
		{number: "300", title: "strings that are documents in every part of a ClusterServiceVersion and a catalog", holds: p0(), long: true, play: (*scene).injectIntoSubscriptions},
		{number: "301", title: "strings that are documents in the bundle, the catalog and the configuration of a ClusterExtension", long: true, play: (*scene).injectIntoExtensions},
	}
}
