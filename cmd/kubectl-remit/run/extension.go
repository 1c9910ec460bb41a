package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/cmd/kubectl-remit/enroll"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// extensionName is the name of the demonstration's ClusterExtension, its package and its namespace.
const extensionName = "hello"

// extension demonstrates a ClusterExtension without a ServiceAccount: it has no permissions until they are granted.
func (d *demo) extension(ctx context.Context) error {
	message := ""
	err := d.progress.step(fmt.Sprintf("Create the ClusterExtension %q without a ServiceAccount: Remit reports what is missing and writes nothing", extensionName), func() error {
		if err := d.createExtension(ctx); err != nil {
			return err
		}
		return d.until(ctx, func(ctx context.Context) (err error) {
			message, err = d.unauthorized(ctx)
			return err
		})
	})
	if err != nil {
		return err
	}
	d.progress.say("\n  The ClusterExtension's condition Authorized, without the RBAC that it contains:\n")
	d.progress.quote(summaryOf(message))
	d.progress.say("")
	granted := time.Now()
	if err := d.progress.step(fmt.Sprintf("Enroll the user and grant what is missing: kubectl remit enroll clusterextension %s --grant --yes", extensionName), func() error {
		return d.command(ctx, enroll.NewCommand(), "clusterextension", extensionName, "--grant", "--yes") //nolint:contextcheck // the command runs with ctx
	}); err != nil {
		return err
	}
	what := fmt.Sprintf("The installation continues, as user %q in group %q", names.UserExtensionPrefix+extensionName, names.GroupExtensions)
	if err := d.progress.step(what, func() error { return d.until(ctx, d.extensionInstalled) }); err != nil {
		return err
	}
	d.progress.say("  From the grant to a running operator: %s", took(granted))
	return nil
}

func (d *demo) createExtension(ctx context.Context) error {
	if err := d.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: extensionName}}); err != nil {
		return err
	}
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: extensionName}}
	ext.Spec.Namespace = extensionName
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: extensionName}}
	return d.client.Create(ctx, ext)
}

// unauthorized returns the report in the condition Authorized, or an error if there is none yet.
func (d *demo) unauthorized(ctx context.Context) (string, error) {
	ext, err := d.getExtension(ctx)
	if err != nil {
		return "", err
	}
	c := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeAuthorized)
	if c == nil || c.Status != metav1.ConditionFalse {
		return "", fmt.Errorf("ClusterExtension %s does not report missing permissions: %s", extensionName, messageOf(ext.Status.Conditions, olmv1.TypeProgressing))
	}
	return c.Message, nil
}

func (d *demo) getExtension(ctx context.Context) (*olmv1.ClusterExtension, error) {
	ext := &olmv1.ClusterExtension{}
	return ext, d.client.Get(ctx, client.ObjectKey{Name: extensionName}, ext)
}

func (d *demo) extensionInstalled(ctx context.Context) error {
	ext, err := d.getExtension(ctx)
	if err != nil {
		return err
	}
	if ext.Status.Install == nil || !meta.IsStatusConditionTrue(ext.Status.Conditions, olmv1.TypeAvailable) {
		return fmt.Errorf("ClusterExtension %s is not installed: %s", extensionName, messageOf(ext.Status.Conditions, olmv1.TypeProgressing))
	}
	return nil
}

// summaryOf returns the lines of a report that are about the user, without the RBAC to apply.
func summaryOf(report string) string {
	var out strings.Builder
	for line := range strings.Lines(report) {
		if strings.HasPrefix(line, "User ") || strings.HasPrefix(line, "- User ") {
			out.WriteString(line)
		}
	}
	return out.String()
}
