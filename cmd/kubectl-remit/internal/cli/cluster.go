package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/decoding"
	"github.com/remit-olm/remit/pkg/lib/version"
)

// Cluster is the API server and the user that kubectl's flags select: --kubeconfig, --context,
// --namespace, --as and so on. Commands send all requests as that user.
type Cluster struct {
	flags *genericclioptions.ConfigFlags
}

// NewCluster returns a Cluster for the flags that AddFlags adds. The kubeconfig is read only when a command needs it,
// after the flags are parsed.
func NewCluster() *Cluster {
	return &Cluster{flags: genericclioptions.NewConfigFlags(true)}
}

// AddFlags adds kubectl's flags to a command.
func (c *Cluster) AddFlags(cmd *cobra.Command) {
	c.flags.AddFlags(cmd.Flags())
	namespaces := c.complete(func(string) (client.ObjectList, []client.ListOption) { return &corev1.NamespaceList{}, nil })
	_ = cmd.RegisterFlagCompletionFunc("namespace", namespaces) // fails only for an undefined flag
}

// CompleteNames returns a function that completes a command's only argument with the names of objects in the namespace.
// The function offers no names if the user is not allowed to list the objects.
func (c *Cluster) CompleteNames(list func() client.ObjectList) cobra.CompletionFunc {
	complete := c.complete(func(namespace string) (client.ObjectList, []client.ListOption) {
		return list(), []client.ListOption{client.InNamespace(namespace)}
	})
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, prefix)
	}
}

// completeTimeout limits how long a user waits for completions.
const completeTimeout = 5 * time.Second

func (c *Cluster) complete(newList func(namespace string) (client.ObjectList, []client.ListOption)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
		defer cancel()
		namespace, err := c.Namespace()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		api, err := c.Client(io.Discard)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		list, options := newList(namespace)
		if err := api.List(ctx, list, options...); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var found []string
		_ = meta.EachListItem(list, func(obj runtime.Object) error { // the callback never returns an error
			if o, ok := obj.(client.Object); ok && strings.HasPrefix(o.GetName(), prefix) {
				found = append(found, o.GetName())
			}
			return nil
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// Namespace returns the value of --namespace or, if unset, the namespace of the kubeconfig's context or "default".
func (c *Cluster) Namespace() (string, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return namespace, nil
}

// Config returns the client configuration that kubectl's flags select. Warnings from the API server go to errOut.
func (c *Cluster) Config(errOut io.Writer) (*rest.Config, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config = rest.CopyConfig(config)
	config.UserAgent = "kubectl-remit/" + version.String()
	config.QPS = -1 // no limit here: API Priority and Fairness limits requests on the server
	config.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

// ServerVersion returns the git version of the API server.
func (c *Cluster) ServerVersion(errOut io.Writer) (string, error) {
	config, err := c.Config(errOut)
	if err != nil {
		return "", err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	v, err := d.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("determine the version of the API server: %w", err)
	}
	return v.GitVersion, nil
}

// Raw returns a client for paths of the API server that are not resources.
func (c *Cluster) Raw(errOut io.Writer) (rest.Interface, error) {
	config, err := c.Config(errOut)
	if err != nil {
		return nil, err
	}
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, clientgoscheme.Codecs.WithoutConversion()
	return rest.UnversionedRESTClientFor(config)
}

// Client returns an uncached client with the configuration that Config returns. Its scheme contains all kinds that Remit uses.
func (c *Cluster) Client(errOut io.Writer) (client.Client, error) {
	config, err := c.Config(errOut)
	if err != nil {
		return nil, err
	}
	scheme, err := controller.NewScheme()
	if err != nil {
		return nil, err
	}
	config.Wrap(decoding.Tolerant(scheme))
	out, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return out, nil
}
