package component

import "strings"

// Users of the components, as their certificates name them. The audit policy and RBAC know them by these names.
const (
	AdminUser             = "remit-admin"
	NodeUser              = "system:remit-node"
	ControllerManagerUser = "system:kube-controller-manager"
	SchedulerUser         = "system:kube-scheduler"
	KubeletClientUser     = "kube-apiserver-kubelet-client"
	FrontProxyUser        = "front-proxy-client"
)

// AuditPolicy keeps the metadata of every completed request, except what the components themselves only read: that is nine tenths of
// the traffic and says nothing about the product. Requests of ServiceAccounts outside kube-system are kept without exception, reads
// included, since tests prove with them that an operator never asked for more than its account may have. A watch appears when it ends.
// Of two kinds of writes by ServiceAccounts the objects are kept too, as nothing else tells what they did: changes of
// ClusterServiceVersions by Remit itself, and what runs Pods, which may be deleted before anybody looks.
func AuditPolicy() string {
	components := []string{"system:apiserver", NodeUser, ControllerManagerUser, SchedulerUser}
	return `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- level: None
  users: ["` + strings.Join(components, `", "`) + `"]
  verbs: [get, list, watch]
- level: None
  userGroups: ["system:serviceaccounts:kube-system"]
  verbs: [get, list, watch]
- level: None
  userGroups: ["system:unauthenticated"]
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*", "/version"]
- level: RequestResponse
  userGroups: ["system:serviceaccounts:remit"]
  verbs: [patch, update]
  resources:
  - {group: operators.coreos.com, resources: [clusterserviceversions]}
- level: RequestResponse
  userGroups: ["system:serviceaccounts"]
  verbs: [create, patch, update]
  resources:
  - {group: "", resources: [pods, replicationcontrollers]}
  - {group: apps, resources: [daemonsets, deployments, replicasets, statefulsets]}
  - {group: batch, resources: [cronjobs, jobs]}
- level: Metadata
`
}

// EgressSelector sends everything the API server opens towards the cluster through the proxy on a unix socket. Only "cluster" is
// listed: an "etcd" entry breaks etcd on a unix socket.
func EgressSelector(socket string) string {
	return `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: "` + socket + `"}}
`
}
