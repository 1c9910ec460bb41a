package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Scope holds the options of commands that handle one namespace, or all namespaces of the cluster.
type Scope struct {
	// AllNamespaces selects all namespaces instead of the one that --namespace names.
	AllNamespaces bool
	// RemitNamespace is the namespace where Remit is installed.
	RemitNamespace string
}

// AddFlags adds --all-namespaces and --remit-namespace to a command. what describes --all-namespaces.
func (s *Scope) AddFlags(cmd *cobra.Command, what string) {
	flags := cmd.Flags()
	flags.BoolVarP(&s.AllNamespaces, "all-namespaces", "A", false, what)
	flags.StringVar(&s.RemitNamespace, "remit-namespace", names.DefaultNamespace, "namespace where Remit is installed")
}

// Validate returns an error if the values of the flags are invalid.
func (s *Scope) Validate(cmd *cobra.Command) error {
	if s.AllNamespaces && cmd.Flags().Changed("namespace") {
		return errors.New("--all-namespaces and --namespace are mutually exclusive")
	}
	return CheckRemitNamespace(s.RemitNamespace)
}

// CheckRemitNamespace returns an error if the value of --remit-namespace is not a valid name.
func CheckRemitNamespace(name string) error {
	if problems := validation.ValidateNamespaceName(name, false); len(problems) > 0 {
		return fmt.Errorf("--remit-namespace=%s: %s", name, problems[0])
	}
	return nil
}

// Open returns a client, as Cluster.Client does, and the selected namespace, or metav1.NamespaceAll.
func (s *Scope) Open(cluster *Cluster, errOut io.Writer) (client.Client, string, error) {
	namespace := metav1.NamespaceAll
	if !s.AllNamespaces {
		var err error
		if namespace, err = cluster.Namespace(); err != nil {
			return nil, "", err
		}
	}
	c, err := cluster.Client(errOut)
	return c, namespace, err
}
