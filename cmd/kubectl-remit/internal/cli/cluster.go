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
func (c *Cluster) AddFlags(cmd *cobra.Command) {
	c.flags.AddFlags(cmd.Flags())
	namespaces := c.complete(func(string) (client.ObjectList, []client.ListOption) { return &corev1.NamespaceList{}, nil })
	_ = cmd.RegisterFlagCompletionFunc("namespace", namespaces) // fails only for a flag that is not there
}

// CompleteNames completes a command's one argument by the names of objects in the namespace. The user
// who may not list them gets none.
func (c *Cluster) CompleteNames(list func() client.ObjectList) cobra.CompletionFunc {
	complete := c.complete(func(namespace string) (client.ObjectList, []client.ListOption) {
		return list(), []client.ListOption{client.InNamespace(namespace)}
	})
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begun)
	}
}

// completeTimeout is how long a person waits for a completion.
const completeTimeout = 5 * time.Second

func (c *Cluster) complete(what func(namespace string) (client.ObjectList, []client.ListOption)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
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
		list, options := what(namespace)
		if err := api.List(ctx, list, options...); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var found []string
		_ = meta.EachListItem(list, func(obj runtime.Object) error { // our own function fails never
			if o, ok := obj.(client.Object); ok && strings.HasPrefix(o.GetName(), begun) {
				found = append(found, o.GetName())
			}
			return nil
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

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
