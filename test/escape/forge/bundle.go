package forge

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// Image is the image in all Deployments. No program is mapped to it, so their Pods are ready immediately.
	Image = "escape.test/operator:v1"
	// ServiceAccount is the ServiceAccount that a new CSV declares.
	ServiceAccount = "operator"
	// Deployment is the name of the only Deployment of a new CSV.
	Deployment = "operator"
	// Channel is the channel of every bundle.
	Channel = "stable"
	// Unversioned is the value of Version for a bundle without a version in the catalog.
	Unversioned = "-"
)

// Bundle is one version of a package, with its manifests exactly as published.
type Bundle struct {
	Package string
	// Name is the name of the ClusterServiceVersion in the catalog.
	Name string
	// Manifests are arbitrary bytes, not necessarily YAML.
	Manifests []string
	// Version is the version in the catalog. Empty means 1.0.0, and Unversioned means none.
	Version string
	// Edges are the upgrade edges of the bundle's channel entry: replaces, skips, skipRange.
	Edges map[string]any
}

// Of returns a bundle with the CSV and other manifests.
func Of(pkg string, csv CSV, manifests ...string) *Bundle {
	return &Bundle{Package: pkg, Name: csv.Name(), Manifests: append([]string{csv.String()}, manifests...)}
}

// CSV is a ClusterServiceVersion with arbitrary content.
type CSV struct{ Object map[string]any }

// NewCSV returns a harmless CSV.
func NewCSV(name string) CSV {
	c := CSV{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, csvText, name, ServiceAccount, Deployment, Image), &c.Object); err != nil {
		panic(fmt.Sprintf("parse CSV: %v", err)) // the template below is valid
	}
	return c
}

const csvText = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: %[1]s}
spec:
  displayName: Probe
  version: 1.0.0
  installModes:
  - {type: OwnNamespace, supported: true}
  - {type: SingleNamespace, supported: true}
  - {type: MultiNamespace, supported: true}
  - {type: AllNamespaces, supported: true}
  install:
    strategy: deployment
    spec:
      permissions:
      - serviceAccountName: %[2]s
        rules:
        - {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}
      deployments:
      - name: %[3]s
        spec:
          replicas: 1
          selector: {matchLabels: {app: %[3]s}}
          template:
            metadata: {labels: {app: %[3]s}}
            spec:
              serviceAccountName: %[2]s
              containers:
              - {name: operator, image: %[4]s}
`

// Name returns the name of the CSV.
func (c CSV) Name() string {
	name, _, _ := unstructured.NestedString(c.Object, "metadata", "name")
	return name
}

// Set changes a field. A nil value removes it. Values must have the types that encoding/json uses for decoded values.
func (c CSV) Set(value any, fields ...string) CSV {
	if value == nil {
		unstructured.RemoveNestedField(c.Object, fields...)
		return c
	}
	if err := unstructured.SetNestedField(c.Object, value, fields...); err != nil {
		panic(fmt.Sprintf("field %v of the CSV: %v", fields, err)) // the path comes from a test
	}
	return c
}

// Permissions replaces the CSV's permissions in its target namespaces.
func (c CSV) Permissions(entries ...any) CSV {
	return c.Set(entries, "spec", "install", "spec", "permissions")
}

// ClusterPermissions replaces the CSV's cluster-wide permissions.
func (c CSV) ClusterPermissions(entries ...any) CSV {
	return c.Set(entries, "spec", "install", "spec", "clusterPermissions")
}

// PodSpec sets a field of the pod spec of the CSV's Deployment. A nil value removes it.
func (c CSV) PodSpec(value any, fields ...string) CSV {
	return c.deployment(value, append([]string{"spec", "template", "spec"}, fields...)...)
}

// PodMetadata sets a field of the pod template's metadata in the CSV's Deployment. A nil value removes it.
func (c CSV) PodMetadata(value any, fields ...string) CSV {
	return c.deployment(value, append([]string{"spec", "template", "metadata"}, fields...)...)
}

// RenameObjects renames the CSV's Deployment and ServiceAccount, so that several CSVs can be installed in one namespace. It
// also resets the CSV's permissions.
func (c CSV) RenameObjects(name string) CSV {
	c.deployment(name, "name").PodSpec(name, "serviceAccountName")
	return c.Permissions(Entry(name, `{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}`))
}

// Replicas sets the number of Pods of the CSV's Deployment.
func (c CSV) Replicas(n int64) CSV { return c.deployment(n, "spec", "replicas") }

func (c CSV) deployment(value any, fields ...string) CSV {
	path := []string{"spec", "install", "spec", "deployments"}
	all, _, _ := unstructured.NestedSlice(c.Object, path...)
	first := CSV{all[0].(map[string]any)}
	first.Set(value, fields...)
	return c.Set(all, path...)
}

func (c CSV) String() string { return text(c.Object) }

// Entry returns an entry of a CSV's permissions that grants rules, each given as YAML, to a ServiceAccount.
func Entry(serviceAccount string, rules ...string) any {
	list := []any{}
	for _, r := range rules {
		list = append(list, Value(r))
	}
	return map[string]any{"serviceAccountName": serviceAccount, "rules": list}
}

// Value parses YAML. It panics if the text is invalid.
func Value(text string) any {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err)) // the text comes from a test
	}
	return v
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps, lists and strings can always be encoded
	}
	return string(out)
}
