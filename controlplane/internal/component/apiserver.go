package component

import (
	"context"
	"fmt"
	"net"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// Pair is a certificate and its key in two files.
type Pair struct{ Cert, Key string }

// APIServerOptions contains the files, addresses and keys of the API server. All fields except Authorizer are
// required.
type APIServerOptions struct {
	// Listener is opened before the API server starts, so that no other process can take the port.
	Listener net.Listener
	// Advertise is the address in the Endpoints of the kubernetes Service. It is never a loopback address, because the API
	// rejects those.
	Advertise   string
	EtcdServer  string
	ServiceCIDR string
	Egress      string // egress selector file
	AuditPolicy string
	AuditLog    string
	Authorizer  string // kubeconfig of a webhook

	ClientCA          string
	RequestHeaderCA   string
	Serving           Pair
	KubeletClient     Pair
	FrontProxy        Pair
	ServiceAccountKey string
}

// APIServer starts kube-apiserver. Its readyz endpoint reports when it serves requests.
func APIServer(ctx context.Context, o APIServerOptions) (*Running, error) {
	s := options.NewServerRunOptions()
	if err := parse("kube-apiserver", s.Flags(), apiServerFlags(o)); err != nil {
		return nil, err
	}
	s.SecureServing.Listener = o.Listener
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	// Without this, in-process clients log each deprecation warning repeatedly.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	// Logging can be configured only once per process, so only the API server configures it.
	if err := logsapi.ValidateAndApply(s.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return nil, err
	}
	run := func(ctx context.Context) error {
		completed, err := s.Complete(ctx)
		if err != nil {
			return err
		}
		if errs := completed.Validate(); len(errs) > 0 {
			return utilerrors.NewAggregate(errs)
		}
		return app.Run(ctx, completed)
	}
	return start(ctx, "kube-apiserver", run), nil
}

// authorizationFlags returns the flags for authorization by Node, RBAC and then the webhook, if any. The webhook's
// responses are not cached, because tests change them.
func authorizationFlags(webhook string) []string {
	if webhook == "" {
		return []string{"--authorization-mode=Node,RBAC"}
	}
	return []string{
		"--authorization-mode=Node,RBAC,Webhook",
		"--authorization-webhook-config-file=" + webhook,
		"--authorization-webhook-version=v1",
		"--authorization-webhook-cache-authorized-ttl=0s",
		"--authorization-webhook-cache-unauthorized-ttl=0s",
	}
}

func apiServerFlags(o APIServerOptions) []string {
	addr := o.Listener.Addr().(*net.TCPAddr)
	return append(authorizationFlags(o.Authorizer), []string{
		"--bind-address=" + addr.IP.String(),
		fmt.Sprintf("--secure-port=%d", addr.Port),
		"--advertise-address=" + o.Advertise,
		"--etcd-servers=" + o.EtcdServer,
		"--service-cluster-ip-range=" + o.ServiceCIDR,
		"--allow-privileged=true",
		"--profiling=false",

		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--client-ca-file=" + o.ClientCA,
		"--tls-cert-file=" + o.Serving.Cert,
		"--tls-private-key-file=" + o.Serving.Key,

		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + o.ServiceAccountKey,
		"--service-account-signing-key-file=" + o.ServiceAccountKey,

		"--requestheader-client-ca-file=" + o.RequestHeaderCA,
		"--requestheader-allowed-names=" + FrontProxyUser,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + o.FrontProxy.Cert,
		"--proxy-client-key-file=" + o.FrontProxy.Key,

		// The aggregator and webhooks connect to endpoints through the proxy, because cluster IPs are not reachable.
		"--enable-aggregator-routing=true",
		"--egress-selector-config-file=" + o.Egress,

		"--kubelet-client-certificate=" + o.KubeletClient.Cert,
		"--kubelet-client-key=" + o.KubeletClient.Key,
		"--kubelet-certificate-authority=" + o.ClientCA,
		"--kubelet-preferred-address-types=InternalIP",

		"--audit-policy-file=" + o.AuditPolicy,
		"--audit-log-path=" + o.AuditLog,
		// The limit is high enough to prevent rotation, because readers continue at an offset in the file.
		"--audit-log-maxsize=4096",
	}...)
}
