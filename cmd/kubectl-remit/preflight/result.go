package preflight

import (
	"fmt"
	"io"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
)

// result is the outcome of a check.
type result struct {
	*about
	report preflight.Report
}

// document is the result as YAML or JSON.
type document struct {
	// About is what would be installed, into Namespace and for Targets, if known.
	About string `json:"about"`
	// From is bundle, steps (of the InstallPlan) or report (of the controller).
	From      string   `json:"from"`
	Namespace string   `json:"namespace"`
	Targets   []string `json:"targets,omitempty"`
	// Complete is true if nothing is missing and nothing is unknown.
	Complete           bool `json:"held"`
	preflight.Document `json:",inline"`
	// Grant is YAML that grants everything that is missing.
	Grant string `json:"grant,omitempty"`
}

// err returns the error that the command ends with.
func (r *result) err() error {
	switch {
	case !r.report.Clear():
		return cli.Missing()
	case len(r.report.Unknown) > 0:
		return fmt.Errorf("could not determine whether ServiceAccount %s has all permissions that %s needs", r.account, r.what)
	}
	return nil
}

func (r *result) print(out, errOut io.Writer, format cli.Format) error {
	if format != cli.Text {
		return format.Encode(out, document{
			About: r.what, From: r.from, Namespace: r.namespace, Targets: r.targets, Complete: r.err() == nil,
			Document: r.report.Document(), Grant: string(r.report.Manifests()),
		})
	}
	for _, note := range r.report.Notes {
		fmt.Fprintln(errOut, "note:", status.OneLine(note))
	}
	for _, f := range r.report.Unknown {
		fmt.Fprintln(errOut, "unknown:", status.OneLine(f.Cause+": "+f.Why))
	}
	switch {
	case !r.report.Clear():
		_, err := fmt.Fprintf(out, "%s\n%s", r.report.Refusals(), r.report.Manifests())
		return err
	case len(r.report.Unknown) > 0:
		return nil
	}
	_, err := fmt.Fprintf(out, "ServiceAccount %s has all permissions that %s needs in namespace %q.\n", r.account, r.what, r.namespace)
	return err
}
