package preflight

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/preflight"
)

// result is the answer.
type result struct {
	*about
	report preflight.Report
}

// document is the result for programs.
type document struct {
	// About is what would be installed, into Namespace and for Targets.
	About     string   `json:"about"`
	Namespace string   `json:"namespace"`
	Targets   []string `json:"targets"`
	// Held says that nothing is missing, and nothing is unknown.
	Held               bool `json:"held"`
	preflight.Document `json:",inline"`
	// Grant is YAML that grants all that is missing.
	Grant string `json:"grant,omitempty"`
}

// err says how the command ends.
func (r *result) err() error {
	switch {
	case !r.report.Empty():
		return cli.Missing()
	case len(r.report.Refused) > 0:
		return errors.New(r.report.RefusedText())
	case len(r.report.Unknown) > 0:
		return fmt.Errorf("whether ServiceAccount %s holds all of it could not be found out", r.account)
	}
	return nil
}

func (r *result) print(out, errOut io.Writer, format cli.Format) error {
	if format != cli.Text {
		return format.Encode(out, document{
			About: r.what, Namespace: r.namespace, Targets: r.targets, Held: r.err() == nil,
			Document: r.report.Document(), Grant: string(r.report.Manifests()),
		})
	}
	for _, note := range r.report.Notes {
		fmt.Fprintln(errOut, "note:", note)
	}
	if !r.report.Empty() {
		_, err := fmt.Fprintf(out, "%s\n%s", r.report.Refusals(), r.report.Manifests())
		return err
	}
	for _, s := range r.report.Document().Unknown {
		for _, rule := range s.Rules {
			fmt.Fprintf(errOut, "unknown: %s: %s\n", strings.Join(rule.Causes, ", "), rule.Why)
		}
	}
	if r.err() != nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "ServiceAccount %s holds all that %s needs in namespace %q.\n", r.account, r.what, r.namespace)
	return err
}
