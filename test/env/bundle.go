package env

import "strings"

// PlainCSV returns the manifest of a ClusterServiceVersion, version 1.0.0, for all namespaces, with one Deployment that has the name
// of the operator. more contains further fields of its spec, indented by two spaces.
func PlainCSV(name, more string) string {
	return strings.ReplaceAll(`
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: NAME.v1.0.0}
spec:
  displayName: NAME
  version: 1.0.0
  installModes: [{type: AllNamespaces, supported: true}]
  install:
    strategy: deployment
    spec:
      deployments:
      - name: NAME
        spec:
          selector: {matchLabels: {app: NAME}}
          template:
            metadata: {labels: {app: NAME}}
            spec:
              containers: [{name: manager, image: example.com/NAME:v1}]
`, "NAME", name) + more
}
