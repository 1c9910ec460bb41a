package run

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/grant"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step/build"
	samplebundle "github.com/remit-olm/remit/test/operators/sample/bundle"
)

// sampleNamespace is where the sample operator is installed. The operator's first resource has the name greetingName
// and the message greetingMessage.
const (
	sampleNamespace = "demo"
	greetingName    = "hello"
	greetingMessage = "Hello from a bounded operator"
	// rulesHeldBack is the number of rules that the account is missing initially.
	rulesHeldBack = 2
)

// sample demonstrates an install that is blocked before the first write, reported, granted and completed: once through
// the API of OLM v0, and once through the API of OLM v1.
func (d *demo) sample(ctx context.Context) error {
	if err := d.start(ctx, ""); err != nil {
		return err
	}
	t := &tenant{demo: d, namespace: sampleNamespace, pkg: samplebundle.Package, targets: []string{sampleNamespace}}
	if err := t.blockedFirst(ctx); err != nil {
		return err
	}
	if err := t.greet(ctx); err != nil {
		return err
	}
	if err := d.extension(ctx); err != nil {
		return err
	}
	d.hints(sampleNamespace, "greetings,configmaps,deployments")
	return nil
}

// blockedFirst installs the operator with an account that is missing permissions, shows the report and grants the
// permissions.
func (t *tenant) blockedFirst(ctx context.Context) error {
	b, err := fbc.ReadBundle(ctx, samplebundle.FS())
	if err != nil {
		return err
	}
	all, err := preflight.Required(scoped.ServiceAccountIdentity(t.account()), b, build.Scope{Namespace: t.namespace, Package: t.pkg, Targets: t.targets})
	if err != nil {
		return err
	}
	granted := holdBack(all, t.namespace, rulesHeldBack)
	what := fmt.Sprintf("Create namespace %q with the account %q, which is missing %d rules that the sample operator needs",
		t.namespace, accountName, rulesHeldBack)
	err = t.progress.step(what, func() error {
		if err := t.prepare(ctx); err != nil {
			return err
		}
		return t.grant(ctx, granted)
	})
	if err != nil {
		return err
	}
	var report string
	err = t.progress.step("Subscribe to the sample operator: Remit reports what is missing and writes nothing", func() error {
		if err := t.subscribe(ctx); err != nil {
			return err
		}
		return t.until(ctx, func(ctx context.Context) (err error) {
			report, err = t.blocked(ctx)
			return err
		})
	})
	if err != nil {
		return err
	}
	t.progress.say("\n  The Subscription's condition PermissionsMissing:\n")
	t.progress.quote(report)
	t.progress.say("")
	return t.grantReported(ctx)
}

// grantReported grants what is missing and waits until the install completes.
func (t *tenant) grantReported(ctx context.Context) error {
	arg := "subscription/" + t.pkg
	err := t.progress.step(fmt.Sprintf("Grant what is missing: kubectl remit grant %s -n %s", arg, t.namespace), func() error {
		return t.command(ctx, grant.NewCommand(), arg, "--namespace="+t.namespace) //nolint:contextcheck // the command runs with ctx
	})
	if err != nil {
		return err
	}
	granted := time.Now()
	if err := t.progress.step("The InstallPlan resumes and completes", func() error { return t.until(ctx, t.planComplete) }); err != nil {
		return err
	}
	complete := took(granted)
	if err := t.progress.step("The operator is running: ClusterServiceVersion Succeeded, Subscription AtLatestKnown", func() error {
		return t.until(ctx, t.installed)
	}); err != nil {
		return err
	}
	t.progress.say("  From the grant to a complete plan: %s", complete)
	return nil
}

// command runs one of Remit's commands against the cluster, as the cluster's administrator, who answers yes.
func (d *demo) command(ctx context.Context, cmd *cobra.Command, args ...string) error {
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader("y\n"))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--kubeconfig="+d.cluster.Kubeconfig))
	if err := cmd.ExecuteContext(ctx); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.CommandPath(), err, out.String())
	}
	return nil
}

// holdBack returns a copy of the report without the last n rules for the namespace.
func holdBack(all preflight.Report, namespace string, n int) preflight.Report {
	out := preflight.Report{Identity: all.Identity}
	for _, s := range all.Scopes() {
		keep := len(s.Rules)
		if s.Namespace == namespace {
			keep = max(0, keep-n)
		}
		if keep > 0 {
			out.Findings = append(out.Findings, preflight.Finding{Namespace: s.Namespace, Missing: s.Rules[:keep]})
		}
	}
	return out
}

// greet creates a resource for the operator and waits until the operator has reconciled it.
func (t *tenant) greet(ctx context.Context) error {
	cr := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sample.remit.dev/v1",
		"kind":       "Greeting",
		"metadata":   map[string]any{"name": greetingName, "namespace": t.namespace},
		"spec":       map[string]any{"message": greetingMessage, "replicas": int64(1)},
	}}
	err := t.progress.step(fmt.Sprintf("Create a Greeting %q: the operator, as its own bounded ServiceAccount, reconciles it", greetingName), func() error {
		// The API server can take two seconds to start serving a new kind.
		if err := t.until(ctx, func(ctx context.Context) error { return client.IgnoreAlreadyExists(t.client.Create(ctx, cr)) }); err != nil {
			return err
		}
		return t.until(ctx, func(ctx context.Context) error { return t.greeted(ctx, cr) })
	})
	if err != nil {
		return err
	}
	name, _, _ := unstructured.NestedString(cr.Object, "status", "configMapName")
	t.progress.say("  Greeting %s/%s is Ready; its ConfigMap is %q", t.namespace, greetingName, name)
	return nil
}

func (t *tenant) greeted(ctx context.Context, cr *unstructured.Unstructured) error {
	if err := t.client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(cr.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("Greeting %q is not Ready yet", cr.GetName())
}

// hints prints commands to try on the cluster, if it stays up.
func (d *demo) hints(namespace, kinds string) {
	if d.Exit {
		return
	}
	d.progress.say("\nKubeconfig: %s\n\nTry:", d.cluster.Kubeconfig)
	for _, line := range []string{
		"get subscriptions,installplans,clusterserviceversions -n " + namespace,
		"get " + kinds + " -n " + namespace,
		"logs -n remit deployment/remit-catalog --tail 20",
	} {
		d.progress.say("  kubectl --kubeconfig %s %s", d.cluster.Kubeconfig, line)
	}
}
