package main

import (
	"net"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// The environment that the operator's Deployment and the node set.
const (
	envWatchNamespace = "WATCH_NAMESPACE"
	envDefaultMessage = "DEFAULT_MESSAGE"
	// envListenIP is set by the embedded control plane, in which a Pod is a process on this machine that
	// may only bind its own loopback address.
	envListenIP = "REMIT_POD_LISTEN_IP"

	// envServe is unset for the first version of the operator, which serves nothing; the second one runs
	// once as serveHooks, in addition to what the first one does, and once as serveAPI. serveOnlyHooks is for tests
	// of webhooks without Greetings.
	envServe = "SERVE"
	// envHooksPrefix is the path under which webhooks are served.
	envHooksPrefix = "HOOKS_PREFIX"
	// envRoot is set by the embedded control plane, too: what a Pod finds at /a is at $REMIT_ROOT/a.
	envRoot = "REMIT_ROOT"

	serveHooks     = "hooks"
	serveOnlyHooks = "only-hooks"
	serveAPI       = "api"

	healthPort = "8081"
	hooksPort  = "9443"
	apiPort    = "5443"

	// Where operators find their certificate (OLM v0 contract, 1.12).
	hooksCertificates = "/tmp/k8s-webhook-server/serving-certs"
	apiCertificates   = "/apiserver.local.config/certificates"
)

type options struct {
	// namespaces to watch; nil means all.
	namespaces     map[string]cache.Config
	healthAddress  string
	defaultMessage string
	// serve is one of the constants, or "".
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
