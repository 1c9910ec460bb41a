package component

import "strings"

// Users of the components, as in their certificates. The audit policy and RBAC refer to these names.
const (
	AdminUser             = "remit-admin"
	NodeUser              = "system:remit-node"
	ControllerManagerUser = "system:kube-controller-manager"
	SchedulerUser         = "system:kube-scheduler"
	KubeletClientUser     = "kube-apiserver-kubelet-client"
	FrontProxyUser        = "front-proxy-client"
)

// AuditPolicy returns a policy that records the metadata of every completed request, except reads by the components themselves,
// which account for about 90% of the traffic and are irrelevant to the product. Requests from ServiceAccounts outside
// kube-system are all recorded, including reads: tests use them to prove that an operator never requested more than its account
// is allowed to. A watch is recorded when it ends. Two kinds of writes by ServiceAccounts are recorded with their objects,
// because there is no other record: changes to ClusterServiceVersions by Remit, and objects that run Pods, which may be deleted
// before a test reads them.
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

// EgressSelector returns the configuration that routes all connections from the API server into the cluster through the
// proxy on a unix socket. It configures only "cluster": an "etcd" entry breaks etcd on a unix socket.
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
