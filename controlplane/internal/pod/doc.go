// Package pod runs one Pod: a Worker turns its spec into container states and reports them as the kubelet would.
//
// A container whose image is not mapped to an executable is simulated: it is Running and Ready immediately, or, in a Pod
// of a Job whose restart policy is not Always, completed immediately. A container with a mapped image is a process:
//
//	arguments     command without its first word, then args; the executable is the entrypoint
//	directory     REMIT_ROOT, under which every volumeMount /a/b is found as REMIT_ROOT/a/b
//	environment   PATH, HOSTNAME, HOME, TMPDIR, REMIT_ROOT, REMIT_POD_LISTEN_IP (bind here to be reachable as the Pod's IP),
//	              KUBERNETES_SERVICE_HOST and _PORT, HTTP_PROXY, HTTPS_PROXY, NO_PROXY, and KUBECONFIG if the ServiceAccount
//	              token is mounted; then the variables of the Pod spec, which take precedence
//	output        <dir>/pods/NAMESPACE_NAME_UID/CONTAINER.log; restarts append to it
//	ends          with SIGTERM, the grace period, SIGKILL to the group; never outlives the control plane
//
// Annotations on a Pod request faults, so that tests can simulate problems of a real node. They are reread when they change,
// and the first two only apply to simulated containers:
//
//	standin.test/start-after: 3s     its containers run that long before they are ready
//	standin.test/ready: "false"      its containers are not ready
//	standin.test/lost: "true"        the Pod ends as if the node had evicted it: phase Failed, reason Evicted
//
// States, per container:
//
//	Waiting ContainerCreating -> Running -> Terminated Completed|Error               (final by the restart policy)
//	Waiting CreateContainerConfigError   -> Waiting CrashLoopBackOff -> Running ...  (otherwise)
//
// Not supported: exec, attach, port-forward, resource limits, users and capabilities, network namespaces.
package pod
