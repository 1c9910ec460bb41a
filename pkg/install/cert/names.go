package cert

import (
	"strings"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// maxServiceName is what the API server takes: a Service's name is a DNS label.
const maxServiceName = 63

const serviceSuffix = "-service"

// ServiceName is the Service through which a Deployment's webhooks and APIs are called (contract 1.12).
// A name that would be too long ends in a hash.
func ServiceName(deployment string) string {
	name := strings.ReplaceAll(deployment, ".", "-")
	if len(name)+len(serviceSuffix) > maxServiceName {
		hash := ownerutil.Hash(deployment)
		name = name[:maxServiceName-len(serviceSuffix)-len(hash)-1] + "-" + hash
	}
	return name + serviceSuffix
}

// SecretName is the Secret that holds the certificates of a Deployment (contract 1.12).
func SecretName(deployment string) string { return ServiceName(deployment) + "-cert" }

// Hosts are the names by which a Deployment's Service is called in its cluster.
func Hosts(deployment, namespace string) []string {
	name := ServiceName(deployment) + "." + namespace
	return []string{name, name + ".svc", name + ".svc.cluster.local"}
}
