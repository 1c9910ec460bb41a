package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/blockage"
	"github.com/remit-olm/remit/test/env/corpus"
)

// The catalogs of the tests. Each catalog is a directory that exists before Remit starts. image returns the image name
// with which a CatalogSource refers to the catalog.
const (
	catalogSample     = "sample"
	catalogAbsent     = "absent"
	catalogMalformed  = "malformed"
	catalogPrometheus = "prometheus"
	// catalogOwnGroup has a CustomResourceDefinition that no other catalog has.
	catalogOwnGroup = "own-group"
	// catalogRequiring requires the CustomResourceDefinition wanted.requiring.remit.dev, which is in no catalog.
	catalogRequiring = "requiring"
	// catalogLarge has more manifests than fit into the status of an InstallPlan.
	catalogLarge = "large"
)

func image(catalog string) string { return "catalogs.test/" + catalog }

// variants maps each catalog to the change that turns the sample bundle into the catalog's bundle.
var variants = map[string]func(v env.Variant){
	catalogSample: func(env.Variant) {},
	catalogLarge: func(v env.Variant) {
		v.Add("large.yaml", `{apiVersion: v1, kind: ConfigMap, metadata: {name: large}, data: {x: "`+strings.Repeat("x", 70<<10)+`"}}`)
	},
	"no-deployments": func(v env.Variant) {
		v.Set([]any{}, "spec", "install", "spec", "deployments")
	},
	"csv-without-version": func(v env.Variant) { delete(v[env.FileCSV].Object, "apiVersion") },
	"rule-without-verbs": func(v env.Variant) {
		v.SetPermissions("sample-operator", map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{}})
	},
	"rule-without-groups": func(v env.Variant) {
		v.SetPermissions("sample-operator", map[string]any{"apiGroups": []any{}, "resources": []any{"pods"}, "verbs": []any{"get"}})
	},
	"bad-serviceaccount-name": func(v env.Variant) {
		v.SetPermissions("Not_A_Name", map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}})
	},
	"unsupported-kind": func(v env.Variant) {
		v.Add("job.yaml", `{apiVersion: batch/v1, kind: Job, metadata: {name: surprise}}`)
	},
	"own-namespace-only": func(v env.Variant) {
		v.Set([]any{
			map[string]any{"type": "OwnNamespace", "supported": true},
			map[string]any{"type": "SingleNamespace", "supported": false},
			map[string]any{"type": "MultiNamespace", "supported": false},
			map[string]any{"type": "AllNamespaces", "supported": false},
		}, "spec", "installModes")
	},
	catalogRequiring: func(v env.Variant) {
		v.Set([]any{map[string]any{"name": "wanted.requiring.remit.dev", "version": "v1", "kind": "Wanted"}},
			"spec", "customresourcedefinitions", "required")
	},
	catalogOwnGroup: func(v env.Variant) { v.SetGroup("together.remit.dev") },
	"bad-port": func(v env.Variant) {
		v[env.FileService].Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(99_999)}}}
	},
	// The version differs from the one in unknown-kind, because one test makes the cluster serve it, while other tests require
	// that the version in unknown-kind is not served.
	"unknown-version": func(v env.Variant) {
		v.Add("vpa.yaml", strings.Replace(blockage.UnknownKindManifest, "/v1,", "/v2,", 1))
	},
	"unknown-kind": func(v env.Variant) {
		v.Add("vpa.yaml", blockage.UnknownKindManifest)
	},
	"ten-thousand-rules": func(v env.Variant) {
		v.Set([]any{map[string]any{"serviceAccountName": "sample-operator", "rules": manyRules()}}, "spec", "install", "spec", "permissions")
	},
	// A ClusterRole that the bundle's own binding grants in addition to the CSV's permissions.
	"own-cluster-role": func(v env.Variant) {
		v.Add("role.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sample-one-round}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list]}, {nonResourceURLs: [/metrics], verbs: [get]}]`)
		v.Add("binding.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: sample-one-round}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sample-one-round}
subjects: [{kind: ServiceAccount, name: sample-operator, namespace: default}]`)
		v.Add("view.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sample-view}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: sample-operator}]`)
	},
	// The API server ignores the field sessionAffinity of a headless Service, with a warning.
	"with-a-warning": func(v env.Variant) {
		v.Add("warning.yaml", `{apiVersion: v1, kind: Service, metadata: {name: sample-headless}, spec: {clusterIP: None, sessionAffinity: ClientIP, ports: [{port: 80}]}}`)
	},
	// Two ServiceAccounts. The Secret's file sorts first.
	"serviceaccount-with-token": func(v env.Variant) {
		v.Add("a_secret.yaml", `
apiVersion: v1
kind: Secret
metadata:
  name: sample-token
  annotations: {kubernetes.io/service-account.name: sample-extra}
type: kubernetes.io/service-account-token`)
		v.Add("b_serviceaccount.yaml", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: sample-extra}}`)
	},
}

// writeCatalogs creates the directories of all catalogs and returns them, keyed by image.
func writeCatalogs(dir string) (map[string]string, error) {
	out := map[string]string{image(catalogAbsent): filepath.Join(dir, catalogAbsent)}
	for name, change := range variants {
		v, err := env.NewVariant()
		if err != nil {
			return nil, err
		}
		change(v)
		out[image(name)] = filepath.Join(dir, name)
		if err := v.Write(out[image(name)]); err != nil {
			return nil, err
		}
	}
	malformed := filepath.Join(dir, catalogMalformed)
	out[image(catalogMalformed)] = malformed
	if err := os.Mkdir(malformed, 0o700); err != nil {
		return nil, err
	}
	if dir, err := corpus.Find(prometheusDir); err == nil {
		out[image(catalogPrometheus)] = dir
	}
	return out, os.WriteFile(filepath.Join(malformed, "catalog.yaml"), []byte("schema: olm.package\nname: [\n"), 0o600)
}

// subscribed returns a tenant with a Subscription to the bundle in a catalog.
func subscribed(t *testing.T, catalog string) *env.Tenant {
	t.Helper()
	tn := cluster.Tenant(t)
	tn.Catalog("catalog", image(catalog))
	subscribe(tn)
	return tn
}
