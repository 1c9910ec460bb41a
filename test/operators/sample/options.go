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
	// envListenIP is set by the embedded control plane, where a Pod is a process on this machine and
	// may only bind its own loopback address.
	envListenIP = "REMIT_POD_LISTEN_IP"

	healthPort = "8081"
)

type options struct {
	// namespaces to watch; nil means all.
	namespaces     map[string]cache.Config
	healthAddress  string
	defaultMessage string
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
