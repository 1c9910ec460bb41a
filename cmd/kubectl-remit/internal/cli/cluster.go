package cli

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/version"
)

// Cluster is the API server and the user that kubectl's own flags choose: --kubeconfig, --context,
// --namespace, --as and the rest. What a command sends, it sends as that user.
type Cluster struct {
	flags *genericclioptions.ConfigFlags
}

// NewCluster is to be made before a command's flags are parsed; it reads nothing.
func NewCluster() *Cluster {
	return &Cluster{flags: genericclioptions.NewConfigFlags(true)}
}

// AddFlags adds kubectl's flags to a command.
func (c *Cluster) AddFlags(flags *pflag.FlagSet) { c.flags.AddFlags(flags) }

// Namespace is that of --namespace, or else of the kubeconfig's context, or else "default".
func (c *Cluster) Namespace() (string, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return namespace, nil
}

// Config reaches the API server as the user. Warnings of the API server go to errOut.
func (c *Cluster) Config(errOut io.Writer) (*rest.Config, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "kubectl-remit/" + version.String()
	config.QPS = -1 // the API server's priority and fairness decides
	config.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// Client is a client of Config that knows Remit's kinds. It reads live.
func (c *Cluster) Client(errOut io.Writer) (client.Client, error) {
	config, err := c.Config(errOut)
	if err != nil {
		return nil, err
	}
	scheme, err := controller.NewScheme()
	if err != nil {
		return nil, err
	}
	out, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return out, nil
}
