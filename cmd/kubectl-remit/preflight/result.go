package preflight

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/preflight"
)

// result is the outcome of a check.
type result struct {
	*input
	report preflight.Report
	// enrollment is the RBAC that allows Remit to act as the identity of a ClusterExtension; nil if it exists or is unknown.
	enrollment []client.Object
}

// document is the YAML and JSON representation of a result.
type document struct {
	// About describes what would be installed. Namespace and Targets are set if they are known.
	About string `json:"about"`
	// From is bundle, steps (of the InstallPlan) or report (of the controller).
	From      string   `json:"from"`
	Namespace string   `json:"namespace"`
	Targets   []string `json:"targets,omitempty"`
	// Complete is true if nothing is missing and nothing is unknown.
	Complete           bool `json:"complete"`
	preflight.Document `json:",inline"`
	// NotEnrolled is true if Remit is not allowed to act as the identity of a ClusterExtension.
	NotEnrolled bool `json:"notEnrolled,omitempty"`
}

// formatReport prints a document instead of objects.
const formatReport cli.Format = "report"

// err returns the error that the command returns, or nil if nothing is missing and nothing is unknown.
func (r *result) err() error {
	switch {
	case !r.report.Clear(), len(r.enrollment) > 0:
		return cli.Missing()
	case len(r.report.Unknown) > 0:
		return fmt.Errorf("could not determine whether %s has all permissions that %s needs", r.identity, r.what)
	}
	return nil
}

// objects returns the objects that grant everything that is missing, in an order in which they can be created.
func (r *result) objects() []client.Object {
	return append(slices.Clone(r.enrollment), r.report.Objects()...)
}

// errReported means that the only source of what is missing is a report that other users can change. It is shown, but it is no basis for
// objects that a user applies.
var errReported = errors.New("other users can change the report of the InstallPlan, so it is printed only as text: specify each bundle with --bundle")

// print prints the result. With YAML and JSON, standard output consists of objects alone, so that users can apply it.
func (r *result) print(out, errOut io.Writer, format cli.Format) error {
	if format == formatReport {
		return cli.YAML.Encode(out, document{
			About: r.what, From: r.from, Namespace: r.namespace, Targets: r.targets, Complete: r.err() == nil,
			Document: r.report.Document(), NotEnrolled: len(r.enrollment) > 0,
		})
	}
	for _, note := range r.report.Notes {
		message.Fprintln(errOut, "note:", note)
	}
	if warning := r.report.Escalation(); warning != "" && r.report.Empty() { // otherwise, the text contains it
		message.Fprintln(errOut, warning)
	}
	for _, f := range r.report.Unknown {
		message.Fprintf(errOut, "unknown: %s: %s\n", f.Cause, f.Why)
	}
	if format == cli.Text {
		err := r.text(out)
		if err == nil && len(r.objects()) > 0 {
			_, err = message.Fprintln(out, "To print the RBAC that grants this, add "+r.grantOptions()+".")
		}
		return err
	}
	if r.from == fromReport && len(r.objects()) > 0 {
		return errReported
	}
	if err := r.text(errOut); err != nil {
		return err
	}
	return format.EncodeObjects(out, r.objects())
}

// grantOptions returns the options with which the command prints objects.
func (r *result) grantOptions() string {
	if r.from == fromReport {
		return "-o yaml, and each bundle with --bundle"
	}
	return "-o yaml"
}

// text describes what is missing.
func (r *result) text(out io.Writer) (err error) {
	switch {
	case !r.report.Clear():
		_, err = message.Fprintf(out, "%s\n", r.report.Refusals())
	case len(r.report.Unknown) == 0:
		_, err = message.Fprintf(out, "%s has all permissions that %s needs in namespace %q.\n", r.identity, r.what, r.namespace)
	}
	if err == nil && len(r.enrollment) > 0 {
		_, err = message.Fprintf(out, "%s is not enrolled: Remit is not allowed to act as it.\n", r.identity)
	}
	return err
}
