package forge

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// Image is the image of all Deployments. No program is mapped to it, so their Pods are ready immediately.
	Image = "escape.test/operator:v1"
	// ServiceAccount is the ServiceAccount that a new CSV declares.
	ServiceAccount = "operator"
	// Deployment is the name of the only Deployment of a new CSV.
	Deployment = "operator"
	// Channel is the channel of every bundle.
	Channel = "stable"
	// Unversioned is the Version of a bundle for which the catalog has none.
	Unversioned = "-"
)

// Bundle is one version of a package: its manifests as they are published.
type Bundle struct {
	Package string
	// Name is the name of the ClusterServiceVersion in the catalog.
	Name string
	// Manifests are arbitrary bytes, not necessarily YAML.
	Manifests []string
	// Version is the version in the catalog; empty means 1.0.0, Unversioned means none.
	Version string
	// Edges are the upgrade edges of its channel entry: replaces, skips, skipRange.
	Edges map[string]any
}

// Of returns a bundle with this CSV.
func Of(pkg string, csv CSV, manifests ...string) *Bundle {
	return &Bundle{Package: pkg, Name: csv.Name(), Manifests: append([]string{csv.String()}, manifests...)}
}

// CSV is a ClusterServiceVersion with arbitrary content.
type CSV struct{ Object map[string]any }

// NewCSV returns a harmless CSV.
func NewCSV(name string) CSV {
	c := CSV{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, csvText, name, ServiceAccount, Deployment, Image), &c.Object); err != nil {
		panic(fmt.Sprintf("the text of the CSV: %v", err)) // ours
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

// Set changes a field; nil removes it. Values have the types of encoding/json.
func (c CSV) Set(value any, fields ...string) CSV {
	if value == nil {
		unstructured.RemoveNestedField(c.Object, fields...)
		return c
	}
	if err := unstructured.SetNestedField(c.Object, value, fields...); err != nil {
		panic(fmt.Sprintf("field %v of the CSV: %v", fields, err)) // a test's own path
	}
	return c
}

// Permissions replaces the CSV's permissions in its targets.
func (c CSV) Permissions(entries ...any) CSV {
	return c.Set(entries, "spec", "install", "spec", "permissions")
}

// ClusterPermissions replaces the CSV's cluster-wide permissions.
func (c CSV) ClusterPermissions(entries ...any) CSV {
	return c.Set(entries, "spec", "install", "spec", "clusterPermissions")
}

// PodSpec changes a field of the pod template of its Deployment.
func (c CSV) PodSpec(value any, fields ...string) CSV {
	return c.deployment(value, append([]string{"spec", "template", "spec"}, fields...)...)
}

// PodMetadata changes a field of the metadata of that template.
func (c CSV) PodMetadata(value any, fields ...string) CSV {
	return c.deployment(value, append([]string{"spec", "template", "metadata"}, fields...)...)
}

// Apart renames its Deployment and ServiceAccount, so that it can share a namespace with others.
func (c CSV) Apart(name string) CSV {
	c.deployment(name, "name").PodSpec(name, "serviceAccountName")
	return c.Permissions(Entry(name, `{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}`))
}

func (c CSV) deployment(value any, fields ...string) CSV {
	path := []string{"spec", "install", "spec", "deployments"}
	all, _, _ := unstructured.NestedSlice(c.Object, path...)
	first := CSV{all[0].(map[string]any)}
	first.Set(value, fields...)
	return c.Set(all, path...)
}

func (c CSV) String() string { return text(c.Object) }

// Entry returns one entry of permissions; each rule is YAML.
func Entry(serviceAccount string, rules ...string) any {
	list := []any{}
	for _, r := range rules {
		list = append(list, Value(r))
	}
	return map[string]any{"serviceAccountName": serviceAccount, "rules": list}
}

// Value returns the value of a YAML text.
func Value(text string) any {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err)) // a test's own text
	}
	return v
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // made of maps, lists and texts
	}
	return string(out)
}
