package adopt

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// Verdict describes what happens to an object.
type Verdict string

// Verdicts of adopt and undo.
const (
	// Adopt means that the proof is added to the object.
	Adopt Verdict = "adopt"
	// Adopted means that the object already has the proof.
	Adopted Verdict = "adopted"
	// Left means that Remit does not need to own the object, and does not change it.
	Left Verdict = "left"
	// Refused means that the object is needed but cannot be proven to belong to the operator, so its namespace is not adopted.
	Refused Verdict = "refused"
	// Restore means that undo restores the object to its state before the adoption.
	Restore Verdict = "restore"
	// Gone means that the object no longer exists, or that another object has replaced it.
	Gone Verdict = "gone"
)

// Report is the output of the command.
type Report struct {
	DryRun bool `json:"dryRun"`
	// Problems prevent any write.
	Problems   []string    `json:"problems,omitempty"`
	Notes      []string    `json:"notes,omitempty"`
	Namespaces []Namespace `json:"namespaces"`
}

// Namespace describes one namespace.
type Namespace struct {
	Name          string `json:"name"`
	OperatorGroup string `json:"operatorGroup,omitempty"`
	// ManagedBy is "olm" or "remit".
	ManagedBy string `json:"managedBy"`
	// Refused lists the reasons why nothing in the namespace is adopted.
	Refused  []string  `json:"refused,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
	Installs []Install `json:"installs,omitempty"`
	Objects  []Object  `json:"objects,omitempty"`
}

// Install describes one installed operator.
type Install struct {
	ClusterServiceVersion string `json:"clusterServiceVersion"`
	// Package and Subscription are empty for a ClusterServiceVersion that a user created.
	Package      string       `json:"package,omitempty"`
	Subscription string       `json:"subscription,omitempty"`
	Deployments  []Deployment `json:"deployments,omitempty"`
}

// Deployment describes an operator's Deployment, and whether its Pods restart.
type Deployment struct {
	Name     string `json:"name"`
	Restarts bool   `json:"restarts"`
	// Why is the reason for a restart.
	Why string `json:"why,omitempty"`
	// Differs lists the fields that Remit would set differently. They do not change until Remit next updates the Deployment.
	Differs []string `json:"differs,omitempty"`
}

// Object describes one object and what happens to it.
type Object struct {
	Kind      string  `json:"kind"`
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name"`
	Verdict   Verdict `json:"verdict"`
	// For is the ClusterServiceVersion to which the object belongs.
	For string `json:"for,omitempty"`
	Why string `json:"why,omitempty"`
}

func (r *Report) refused() bool {
	return len(r.Problems) > 0 || slices.ContainsFunc(r.Namespaces, func(n Namespace) bool { return len(n.Refused) > 0 })
}

func (o *Options) print(r *Report) error {
	if o.Format != cli.Text {
		return o.Format.Encode(o.Out, r)
	}
	for _, note := range r.Notes {
		message.Fprintln(o.ErrOut, "note:", note)
	}
	for i := range r.Namespaces {
		if err := r.Namespaces[i].text(o.Out); err != nil {
			return err
		}
	}
	for _, problem := range r.Problems {
		message.Fprintln(o.Out, "refused:", problem)
	}
	switch {
	case len(r.Namespaces) == 0 && len(r.Problems) == 0:
		message.Fprintln(o.Out, "There is nothing to adopt.")
	case r.DryRun:
		message.Fprintln(o.Out, "Nothing was written. To apply the changes, add --yes.")
	case len(r.Problems) > 0:
		message.Fprintln(o.Out, "Nothing was written.")
	}
	return nil
}

func (n *Namespace) text(out io.Writer) error {
	message.Fprintf(out, "Namespace %s (managed by %s)\n", n.Name, n.ManagedBy)
	for _, in := range n.Installs {
		from := "created by a user"
		if in.Subscription != "" {
			from = fmt.Sprintf("package %s, Subscription %s", in.Package, in.Subscription)
		}
		message.Fprintf(out, "  %s: %s\n", in.ClusterServiceVersion, from)
		for _, d := range in.Deployments {
			d.text(out)
		}
	}
	if len(n.Objects) > 0 {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		message.Fprintln(table, "  VERDICT\tOBJECT\tFOR\tWHY")
		for _, obj := range n.Objects {
			message.Fprintf(table, "  %s\t%s\t%s\t%s\n", obj.Verdict, obj, obj.For, obj.Why)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	for _, note := range n.Notes {
		message.Fprintln(out, "  note:", note)
	}
	for _, why := range n.Refused {
		message.Fprintln(out, "  refused:", why)
	}
	message.Fprintln(out, "  "+n.summary())
	return nil
}

func (d Deployment) text(out io.Writer) {
	if d.Restarts {
		message.Fprintf(out, "    Deployment %s: its Pods will restart: %s\n", d.Name, d.Why)
	} else {
		message.Fprintf(out, "    Deployment %s: its Pods continue to run\n", d.Name)
	}
	for _, field := range d.Differs {
		message.Fprintf(out, "      the next update by Remit also sets %s\n", field)
	}
}

// String returns "<Kind> <namespace>/<name>", or "<Kind> <name>".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

func (n *Namespace) summary() string {
	count := map[Verdict]int{}
	for _, obj := range n.Objects {
		count[obj.Verdict]++
	}
	text := ""
	for _, v := range []Verdict{Adopt, Adopted, Restore, Gone, Left, Refused} {
		if count[v] > 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%d %s", count[v], v)
		}
	}
	if text == "" {
		return "no objects"
	}
	return text
}
