package adopt

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// fieldManager is the field manager of changes to OperatorGroups, CatalogSources and records.
const fieldManager = "kubectl-remit"

// Options holds the options of the command.
type Options struct {
	// Scope selects the namespaces. AllNamespaces means all namespaces with an OperatorGroup or a CatalogSource. RemitNamespace
	// contains the Secret with the keys and the records of adoptions.
	cli.Scope
	// Yes allows the command to write. Without it, the command only reads.
	Yes bool
	// Undo gives the namespaces back to OLM.
	Undo    bool
	Format  cli.Format
	Cluster *cli.Cluster
	Out     io.Writer
	ErrOut  io.Writer
}

const example = `  # List what would be taken over in a namespace, and what cannot be proven. Nothing is written
  kubectl remit adopt -n team-a

  # List all namespaces, as JSON
  kubectl remit adopt -A -o json

  # Take over the namespace
  kubectl remit adopt -n team-a --yes

  # Give the namespace back to OLM
  kubectl remit adopt -n team-a --undo --yes`

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	o := Options{Cluster: cli.NewCluster()}
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Take over what OLM v0 installed, or give it back",
		Long: "Take over the operators that OLM v0 installed in a namespace: list every object that belongs to them and, with --yes, add Remit's proof of ownership to each. " +
			"The command does not change the spec of any object. A namespace is taken over completely or not at all: if a required object cannot be proven to belong to an operator, " +
			"nothing in its namespace is written.\n\n" +
			"OLM and Remit never manage the same namespace. The annotation " + names.AnnotationManagedBy + "=" + names.ManagedByOLM + " on an OperatorGroup or a CatalogSource " +
			"leaves it to OLM; the command removes the annotation last. OLM does not support this annotation, so OLM's Deployments must be scaled to zero.\n\n" +
			"The command uses your credentials. It requires permission to read Remit's keys and to patch all of the objects, so it is intended for cluster administrators.\n\n" +
			"The exit status is 0 if everything can be or was taken over, 1 if a namespace was refused, and 2 on any other failure.",
		Example: example,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out, o.ErrOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := o.Validate(cmd); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.Format.AddFlag(cmd)
	o.Cluster.AddFlags(cmd)
	o.Scope.AddFlags(cmd, "all namespaces with an OperatorGroup or CatalogSource")
	flags := cmd.Flags()
	flags.BoolVar(&o.Yes, "yes", false, "write the changes; without it, the command only lists them")
	flags.BoolVar(&o.Undo, "undo", false, "give the namespaces back to OLM, using the record of the adoption")
	return cmd
}

// Run executes the command.
func (o *Options) Run(ctx context.Context) error {
	c, namespace, err := o.Open(o.Cluster, o.ErrOut)
	if err != nil {
		return err
	}
	var report *Report
	if o.Undo {
		report, err = o.undo(ctx, c, namespace)
	} else {
		report, err = o.adopt(ctx, c, namespace)
	}
	if report != nil {
		if printErr := o.print(report); printErr != nil {
			return errors.Join(err, printErr)
		}
	}
	if err == nil && report.refused() {
		return cli.Missing()
	}
	return err
}

// adopt reads the cluster, decides what to adopt and, with --yes, writes the changes. The report is valid
// even if there is an error.
func (o *Options) adopt(ctx context.Context, c client.Client, namespace string) (*Report, error) {
	w, err := gather(ctx, c, o.RemitNamespace, namespace)
	if err != nil {
		return nil, err
	}
	report := &Report{DryRun: !o.Yes, Problems: w.problems, Notes: w.notes}
	plans := make([]*plan, 0, len(w.namespaces))
	for _, ns := range w.namespaces {
		p := w.judge(ns)
		plans = append(plans, p)
		report.Namespaces = append(report.Namespaces, p.report)
	}
	if !o.Yes || len(report.Problems) > 0 {
		return report, nil
	}
	s := signer{client: c, keys: w.keys, home: o.RemitNamespace}
	err = s.adoptAll(ctx, plans)
	for i, p := range plans {
		report.Namespaces[i] = p.report
	}
	return report, err
}

// adoptAll takes over the namespaces. If it fails in one of them, it continues with the others: a tenant can cause the failure.
func (s *signer) adoptAll(ctx context.Context, plans []*plan) error {
	var errs []error
	for _, p := range plans {
		if err := s.adopt(ctx, p); err != nil {
			errs = append(errs, fmt.Errorf("namespace %s: %w; run the command again to complete it, or with --undo to revert it", p.namespace, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}
