package preflight

import (
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"

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
	Account string `json:"account"`
	// About is what would be installed.
	About     string   `json:"about"`
	Namespace string   `json:"namespace"`
	Targets   []string `json:"targets"`
	// Held says that nothing is missing.
	Held bool `json:"held"`
	// Missing are the missing rules with what each is for.
	Missing []missing `json:"missing,omitempty"`
	// Grant is YAML that grants all of it.
	Grant string   `json:"grant,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

type missing struct {
	// Namespace is "" for the whole cluster.
	Namespace string              `json:"namespace,omitempty"`
	Cause     string              `json:"cause"`
	Rules     []rbacv1.PolicyRule `json:"rules"`
}

func (r *result) print(out, errOut io.Writer, format cli.Format) error {
	if format != cli.Text {
		return format.Encode(out, r.document())
	}
	for _, note := range r.rights.Notes() {
		fmt.Fprintln(errOut, "note:", note)
	}
	if r.report.Empty() {
		_, err := fmt.Fprintf(out, "ServiceAccount %s holds all that %s needs in namespace %q.\n", r.account, r.what, r.namespace)
		return err
	}
	_, err := fmt.Fprintf(out, "%s\n%s", r.report.Refusals(), r.report.Manifests())
	return err
}

func (r *result) document() document {
	d := document{
		Account: r.account.String(), About: r.what, Namespace: r.namespace, Targets: r.targets,
		Held: r.report.Empty(), Grant: string(r.report.Manifests()), Notes: r.rights.Notes(),
	}
	for _, f := range r.report.Findings {
		d.Missing = append(d.Missing, missing{Namespace: f.Namespace, Cause: f.Cause, Rules: f.Missing})
	}
	return d
}
