package preflight

import (
	"bytes"
	"fmt"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/status"
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
	// Grant is YAML that grants everything that is missing.
	Grant string `json:"grant,omitempty"`
	// Enrollment is YAML that allows Remit to act as the identity of a ClusterExtension, if Remit is not allowed to do so
	// yet.
	Enrollment string `json:"enrollment,omitempty"`
}

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

func (r *result) print(out, errOut io.Writer, format cli.Format) error {
	enrollment, err := r.enrollmentText()
	if err != nil {
		return err
	}
	if format != cli.Text {
		return format.Encode(out, document{
			About: r.what, From: r.from, Namespace: r.namespace, Targets: r.targets, Complete: r.err() == nil,
			Document: r.report.Document(), Grant: string(r.report.Manifests()), Enrollment: enrollment,
		})
	}
	for _, note := range r.report.Notes {
		fmt.Fprintln(errOut, "note:", status.OneLine(note))
	}
	for _, f := range r.report.Unknown {
		fmt.Fprintln(errOut, "unknown:", status.OneLine(f.Cause+": "+f.Why))
	}
	return r.text(out, enrollment)
}

// text writes what is missing, and the RBAC that grants it.
func (r *result) text(out io.Writer, enrollment string) (err error) {
	switch {
	case !r.report.Clear():
		_, err = fmt.Fprintf(out, "%s\n", r.report.Refusals())
	case len(r.report.Unknown) == 0:
		_, err = fmt.Fprintf(out, "%s has all permissions that %s needs in namespace %q.\n", r.identity, r.what, r.namespace)
	}
	if err == nil && enrollment != "" {
		_, err = fmt.Fprintf(out, "%s is not enrolled: Remit is not allowed to act as it.\n%s", r.identity, enrollment)
	}
	if err == nil && !r.report.Clear() {
		_, err = out.Write(r.report.Manifests())
	}
	return err
}

// enrollmentText returns the enrollment as YAML.
func (r *result) enrollmentText() (string, error) {
	var out bytes.Buffer
	err := cli.YAML.EncodeObjects(&out, r.enrollment)
	return out.String(), err
}
