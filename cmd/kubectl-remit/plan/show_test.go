package plan

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env"
	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

// written writes a variant of the sample bundle to a temporary directory and loads it.
func written(t *testing.T, change func(env.Variant)) *source.Bundle {
	t.Helper()
	v, err := env.NewVariant()
	require.NoError(t, err)
	change(v)
	dir := filepath.Join(t.TempDir(), "bundle")
	require.NoError(t, v.Write(dir))
	b, err := (&source.Flags{}).Load(t.Context(), dir)
	require.NoError(t, err)
	return b
}

func unchanged(env.Variant) {}

func large(v env.Variant) {
	v.Add("large.yaml", `{apiVersion: v1, kind: ConfigMap, metadata: {name: large}, data: {x: "`+strings.Repeat("x", 70<<10)+`"}}`)
}

type reader struct{ content *catalog.Content }

func (r reader) Content(context.Context, string, string, string) (*catalog.Content, error) {
	return r.content, nil
}

// waiting returns an InstallPlan for the bundle, as created by the subscription controller. The plan is waiting for
// approval.
func waiting(t *testing.T, b *source.Bundle) *operatorsv1alpha1.InstallPlan {
	t.Helper()
	key := types.NamespacedName{Namespace: "team-a", Name: "sample"}
	store := &catalog.Store{}
	store.Put(&catalog.Snapshot{Key: key, Reader: reader{b.Content}})
	pins := resolver.Plan{Namespace: "team-a", Pins: []resolver.Pin{{
		Subscription: "sub", SubscriptionUID: "uid", CatalogNamespace: "team-a", Catalog: "sample", Package: sample.Package, Channel: "stable",
		Bundle: b.CSV.Name, Digest: b.Content.Digest(),
	}}}
	name := pins.Name()
	text := pins.Encode()
	kept, err := resolver.Input{Namespace: "team-a", Catalogs: store}.Keep(t.Context(), pins, 200<<10)
	require.NoError(t, err)
	return &operatorsv1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, Annotations: map[string]string{
			names.AnnotationPlan: text, names.AnnotationContent: kept}},
		Spec:   operatorsv1alpha1.InstallPlanSpec{Approval: operatorsv1alpha1.ApprovalManual, ClusterServiceVersionNames: pins.CSVNames()},
		Status: operatorsv1alpha1.InstallPlanStatus{Phase: operatorsv1alpha1.InstallPlanPhaseRequiresApproval},
	}
}

// shown returns the text output for the plan. The plan's OperatorGroup has the given targets.
func shown(t *testing.T, plan *operatorsv1alpha1.InstallPlan, given []*source.Bundle, targets ...string) (string, error) {
	t.Helper()
	scheme, err := controller.NewScheme()
	require.NoError(t, err)
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "team"},
		Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "installer", TargetNamespaces: targets}}
	v, err := gather(t.Context(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(group).Build(), plan, given)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	require.NoError(t, v.text(&out))
	return out.String(), nil
}

func TestShowsPermissionsFirst(t *testing.T) {
	plan := waiting(t, written(t, large))
	text, err := shown(t, plan, nil, "team-a", "team-b")
	require.NoError(t, err)
	rest := text
	for _, want := range []string{
		"InstallPlan team-a/" + plan.Name + " installs:\n  sample-operator.v0.1.0, from package sample-operator, channel stable, of CatalogSource team-a/sample\n" +
			"    not confirmed: CatalogSource team-a/sample: catalogsources.operators.coreos.com \"sample\" not found\n",
		"The name of an InstallPlan does not prove where its content comes from. Remit compares the content with that of the CatalogSources before it writes anything.\n",
		"Installed as ServiceAccount team-a/installer, for the target namespaces: team-a, team-b\n",
		"\nPermissions that the plan grants:\n  to ServiceAccount team-a/sample-operator\n    in each of the namespaces team-a, team-b\n      {apiGroups: [",
		"\nCustomResourceDefinitions, webhooks and APIServices:\n  CustomResourceDefinition greetings.sample.remit.dev (Namespaced; v1)\n",
		"\nDeployments, with their images:\n  sample-operator, as ServiceAccount sample-operator\n    container ",
		"\nOther objects:\n  ClusterServiceVersion team-a/sample-operator.v0.1.0\n",
		"  ConfigMap team-a/large\n",
		"\nThe plan is waiting for approval. To approve it:\n  kubectl patch installplan " + plan.Name + " -n team-a --type merge --patch '{\"spec\":{\"approved\":true}}'\n",
	} {
		i := strings.Index(rest, want)
		require.GreaterOrEqual(t, i, 0, "%s\nis missing or out of order in\n%s", want, text)
		rest = rest[i+len(want):]
	}
	require.NotContains(t, text, "Missing")

	plan.Spec.Approved = true
	text, err = shown(t, plan, nil, "team-a")
	require.NoError(t, err)
	require.NotContains(t, text, "approve")
}

func TestRejectsAForgedPlan(t *testing.T) {
	other := waiting(t, written(t, func(v env.Variant) { v.SetImage("evil.example.com/operator") }))
	for name, c := range map[string]struct {
		forge func(*operatorsv1alpha1.InstallPlan)
		want  string
	}{
		"another bundle's content": {func(p *operatorsv1alpha1.InstallPlan) {
			p.Annotations[names.AnnotationContent] = other.Annotations[names.AnnotationContent]
		}, "the stored content does not match the name of the InstallPlan: the InstallPlan was edited"},
		"another bundle": {func(p *operatorsv1alpha1.InstallPlan) { p.Annotations = other.Annotations },
			"the pins do not match the name of the InstallPlan: the InstallPlan was edited"},
		"no content": {func(p *operatorsv1alpha1.InstallPlan) { delete(p.Annotations, names.AnnotationContent) },
			"the InstallPlan does not contain the manifests of its bundles: pass each bundle with --bundle"},
		"no pins": {func(p *operatorsv1alpha1.InstallPlan) { delete(p.Annotations, names.AnnotationPlan) }, "the pins are missing: the InstallPlan was edited, or was not created by Remit"},
	} {
		plan := waiting(t, written(t, unchanged))
		c.forge(plan)
		text, err := shown(t, plan, nil, "team-a")
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, cli.CodeError, cli.ExitCode(err))
		require.Empty(t, text)
	}
}

// Text from the plan's status is shown only in the section for that status.
func TestAForgedStatusOnlyChangesItsOwnSection(t *testing.T) {
	plan := waiting(t, written(t, unchanged))
	want, err := shown(t, plan, nil, "team-a")
	require.NoError(t, err)
	head, approval, _ := strings.Cut(want, "\nThe plan is waiting for approval.")
	plan.Status.Plan = []*operatorsv1alpha1.Step{{Resolving: "x", Resource: operatorsv1alpha1.StepResource{Kind: "ConfigMap", Name: "harmless", Manifest: "{}"}}}
	plan.Status.Conditions = []operatorsv1alpha1.InstallPlanCondition{{
		Type: names.ConditionPermissionsMissing, Status: corev1.ConditionTrue, Message: "is missing 1 permission\n\nPermissions that the plan grants: none\nTo grant the missing permissions, apply:\n---\nkind: Role\n"}}
	got, err := shown(t, plan, nil, "team-a")
	require.NoError(t, err)
	require.Equal(t, head+"\nMissing permissions and refused objects, according to the plan's status:\n  is missing 1 permission\n  \n  Permissions that the plan grants: none\n"+
		"To see everything that is missing and grant it: kubectl remit grant installplan/"+plan.Name+" -n team-a\n\nThe plan is waiting for approval."+approval, got)
}

func TestReadsContentFromTheGivenBundles(t *testing.T) {
	b := written(t, unchanged)
	plan := waiting(t, b)
	want, err := shown(t, plan, []*source.Bundle{b}, "team-a")
	require.NoError(t, err)
	require.Contains(t, want, "\n    confirmed: the bundle from --bundle has the same content\nInstalled as")
	_, err = shown(t, plan, []*source.Bundle{written(t, large)}, "team-a")
	require.ErrorContains(t, err, "but the plan requires digest "+b.Content.Digest(), "although the plan contains the content")

	delete(plan.Annotations, names.AnnotationContent)
	got, err := shown(t, plan, []*source.Bundle{b}, "team-a")
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = shown(t, plan, []*source.Bundle{written(t, large)}, "team-a")
	require.ErrorContains(t, err, "but the plan requires digest "+b.Content.Digest())
	another := written(t, func(v env.Variant) { v[env.FileCSV].SetName("another.v1") })
	_, err = shown(t, plan, []*source.Bundle{another}, "team-a")
	require.ErrorContains(t, err, `--bundle does not provide bundle "sample-operator.v0.1.0"`)
}

func TestBundleTextCannotBeginALine(t *testing.T) {
	var b bytes.Buffer
	line(&b, 1, "image %s", "a\n\nOther objects: none\n")
	line(&b, 0, "%s", "---\nkind: a")
	require.Equal(t, "  image a Other objects: none \n\\--- kind: a\n", b.String())
}

func TestShowsWebhooksAndAPIServices(t *testing.T) {
	text, err := shown(t, waiting(t, written(t, func(v env.Variant) {
		v.Set([]any{map[string]any{
			"type": "ValidatingAdmissionWebhook", "generateName": "check.sample.remit.dev", "deploymentName": "sample-operator", "admissionReviewVersions": []any{"v1"},
			"sideEffects": "None", "containerPort": int64(8443), "targetPort": int64(8443),
			"rules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"}, "operations": []any{"CREATE", "UPDATE"}}},
		}}, "spec", "webhookdefinitions")
	})), nil, "team-a")
	require.NoError(t, err)
	require.Contains(t, text, "  ValidatingAdmissionWebhook check.sample.remit.dev of Deployment sample-operator, failure policy Fail: intercepts\n"+
		"    CREATE, UPDATE of configmaps (API groups \"\", versions v1)\n")
	require.Contains(t, text, "  Service team-a/sample-operator-service\n")
	require.Contains(t, text, "  Secret team-a/sample-operator-service-cert\n")
}

func TestRejectsInvalidArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown command": {"print"},
		"NAME is missing": {"show"},
		"must be one of":  {"show", "x", "-o", "wide"},
		"no such":         {"show", "x", "--bundle", filepath.Join(os.TempDir(), "no-such-bundle"), "--server=http://127.0.0.1:1"},
	} {
		cmd := NewCommand()
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&bytes.Buffer{})
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(args)
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), want)
	}
}
