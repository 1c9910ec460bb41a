package main

import (
	"net"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Environment variables that the operator's Deployment and the node set.
const (
	envWatchNamespace = "WATCH_NAMESPACE"
	envDefaultMessage = "DEFAULT_MESSAGE"
	// envListenIP is the address on which the operator listens. The embedded control plane sets it: there, a Pod is a
	// process on this machine and may listen only on its own loopback address.
	envListenIP = "REMIT_POD_LISTEN_IP"

	// envServe is unset for the first version of the operator, which has no servers. The second version runs one process
	// with serveHooks, which also reconciles Greetings, and one with serveAPI. serveOnlyHooks is for tests of webhooks
	// without Greetings.
	envServe = "SERVE"
	// envHooksPrefix is an additional path under which the webhooks are served.
	envHooksPrefix = "HOOKS_PREFIX"
	// envRoot is the directory of the Pod's files. The embedded control plane sets it: the Pod's path /a is at
	// $REMIT_ROOT/a.
	envRoot = "REMIT_ROOT"

	serveHooks     = "hooks"
	serveOnlyHooks = "only-hooks"
	serveAPI       = "api"

	healthPort = "8081"
	hooksPort  = "9443"
	apiPort    = "5443"

	// The directories in which operators expect their certificates (OLM v0 contract).
	hooksCertificates = "/tmp/k8s-webhook-server/serving-certs"
	apiCertificates   = "/apiserver.local.config/certificates"
)

type options struct {
	// namespaces are the namespaces to watch; nil means all.
	namespaces     map[string]cache.Config
	healthAddress  string
	defaultMessage string
	// serve is the value of envServe: serveHooks, serveOnlyHooks, serveAPI or "".
	serve       string
	hooksPrefix string
	listenIP    string
	root        string
}

func optionsFromEnv(getenv func(string) string) options {
	listenIP := getenv(envListenIP)
	if listenIP == "" {
		listenIP = "0.0.0.0"
	}
	return options{
		namespaces:     watched(getenv(envWatchNamespace)),
		healthAddress:  net.JoinHostPort(listenIP, healthPort),
		defaultMessage: getenv(envDefaultMessage),
		serve:          getenv(envServe),
		hooksPrefix:    getenv(envHooksPrefix),
		listenIP:       listenIP,
		root:           getenv(envRoot),
	}
}

func watched(list string) map[string]cache.Config {
	var namespaces map[string]cache.Config
	for namespace := range strings.SplitSeq(list, ",") {
		if namespace = strings.TrimSpace(namespace); namespace != "" {
			if namespaces == nil {
				namespaces = map[string]cache.Config{}
			}
			namespaces[namespace] = cache.Config{}
		}
	}
	return namespaces
}
