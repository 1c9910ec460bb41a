package cert

import (
	"strings"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// maxServiceName is the API server's limit: a Service's name is a DNS label.
const maxServiceName = 63

const serviceSuffix = "-service"

// ServiceName returns the name of the Service through which a Deployment's webhooks and APIs are called (contract
// 1.12). A name that would be too long is truncated and includes a hash of the Deployment's name.
func ServiceName(deployment string) string {
	name := strings.ReplaceAll(deployment, ".", "-")
	if len(name)+len(serviceSuffix) > maxServiceName {
		hash := ownerutil.Hash(deployment)
		name = name[:maxServiceName-len(serviceSuffix)-len(hash)-1] + "-" + hash
	}
	return name + serviceSuffix
}

// SecretName returns the name of the Secret with the certificates of a Deployment (OLM v0 contract).
func SecretName(deployment string) string { return ServiceName(deployment) + "-cert" }

// Hosts returns the DNS names of a Deployment's Service within the cluster.
func Hosts(deployment, namespace string) []string {
	name := ServiceName(deployment) + "." + namespace
	return []string{name, name + ".svc", name + ".svc.cluster.local"}
}
