package lockdown

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// otherNamespaces returns a cluster with Remit installed as described in docs/examples/other-namespaces.
var otherNamespaces = start(env.Options{
	Render: func() ([]*unstructured.Unstructured, error) {
		return manifests.RenderDirectory("../../docs/examples/other-namespaces")
	},
	Namespace: "platform-operators", CatalogNamespace: "platform-catalogs",
})

// When the cluster stops, the requests from the controller identities are checked against the closed list.
func TestInstallsAnOperatorWithRemitInOtherNamespaces(t *testing.T) {
	c, err := otherNamespaces()
	require.NoError(t, err)
	tn := c.Tenant(t)
	tn.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: c.Catalogs, Name: "global"},
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: catalogImage}})
	tn.Subscribe("global", bundle.Package, "", func(spec *operatorsv1alpha1.SubscriptionSpec) { spec.CatalogSourceNamespace = c.Catalogs })
	tn.Group(env.AccountName, tn.Namespace)
	tn.PermissionsMissing()
	tn.NothingWritten()
	tn.GrantAll(tn.Needs(sampleBundle(t), bundle.Package, tn.Namespace))
	tn.Succeeded(bundle.CSV)
	tn.GroupSays("group", "AccountUsable", metav1.ConditionTrue, "Enrolled", env.AccountName)

	for _, program := range c.ControllerIdentities().Users {
		if strings.HasSuffix(program, ":"+names.UserAgentExtension) || strings.HasSuffix(program, ":"+names.UserAgentPackageServer) {
			continue // these programs are optional and are not installed on this cluster
		}
		sent, err := c.Audited(t.Context(), func(e audit.Event) bool { return e.User.Username == program && e.Object != nil })
		require.NoError(t, err)
		require.NotEmpty(t, sent, program)
	}
	namespaces := &corev1.NamespaceList{}
	require.NoError(t, c.Client.List(t.Context(), namespaces))
	for _, namespace := range namespaces.Items {
		require.NotContains(t, []string{names.DefaultNamespace, names.DefaultCatalogNamespace}, namespace.Name)
	}
}

// Row 180 of the escape suite shows what the policies prevent.
func TestAProgramDoesNotStartWithoutThePoliciesThatLimitIt(t *testing.T) {
	c, err := otherNamespaces()
	require.NoError(t, err)
	programs := []string{names.ServiceAccountCatalog, names.ServiceAccountOLM}
	policy := func(name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
		return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	binding := func(name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	for name, row := range map[string]struct {
		object client.Object
		weaken func(obj client.Object)
		says   string
	}{
		"a policy that matches another installation": {policy("remit-self-registries"), func(obj client.Object) {
			spec := &obj.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec
			spec.MatchConditions[0].Expression = "request.userInfo.username == 'system:serviceaccount:remit:remit-catalog'"
		}, "remit-self-registries"},
		"a policy that admits requests that it cannot evaluate": {policy("remit-author-check"), func(obj client.Object) {
			ignore := admissionregistrationv1.Ignore
			obj.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec.FailurePolicy = &ignore
		}, "remit-author-check"},
		"a binding that only audits": {binding("remit-self-events"), func(obj client.Object) {
			obj.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
		}, "remit-self-events"},
		"a binding that does not exist": {binding("remit-self-reports"), nil, "remit-self-reports does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			change(t, c, row.object, row.weaken)
			for _, program := range programs {
				out := refusesToStart(t, c, program, c.Home)
				require.Contains(t, out, "the admission policies of this cluster do not limit user")
				require.Contains(t, out, row.says)
			}
		})
	}
	for _, program := range programs {
		out := refusesToStart(t, c, program, names.DefaultNamespace)
		require.Contains(t, out, "this program runs as user", "--namespace differs from the namespace of the identity")
	}
}

// change weakens an object, or deletes it if weaken is nil. It restores the object when the test ends.
func change(t *testing.T, c *env.Cluster, obj client.Object, weaken func(obj client.Object)) {
	t.Helper()
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	before, ok := obj.DeepCopyObject().(client.Object)
	require.True(t, ok)
	if weaken == nil {
		require.NoError(t, c.Client.Delete(t.Context(), obj))
		t.Cleanup(func() {
			before.SetResourceVersion("")
			require.NoError(t, c.Client.Create(context.Background(), before))
		})
		return
	}
	weaken(obj)
	overwrite(t, c, obj)
	t.Cleanup(func() { overwrite(t, c, before) })
}

// overwrite updates an object, even if the API server has updated its status in the meantime.
func overwrite(t *testing.T, c *env.Cluster, obj client.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, ok := obj.DeepCopyObject().(client.Object)
		require.True(t, ok)
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
			return err
		}
		obj.SetResourceVersion(live.GetResourceVersion())
		return c.Client.Update(ctx, obj)
	}))
}

// refusesToStart runs a program as its own ServiceAccount, asserts that the program exits with an error, and returns
// the program's output.
func refusesToStart(t *testing.T, c *env.Cluster, program, namespace string) string {
	t.Helper()
	self := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.Home, Name: program}}
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, c.Client.SubResource("token").Create(t.Context(), self, request))
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: c.Config().Host, CertificateAuthorityData: c.Config().CAData}
	config.AuthInfos["self"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["self"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "self"}
	config.CurrentContext = "self"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, kubeconfig))

	ctx, cancel := context.WithTimeout(t.Context(), env.Patience)
	defer cancel()
	binary := map[string]string{names.ServiceAccountCatalog: "catalog", names.ServiceAccountOLM: "olm"}[program]
	out, err := exec.CommandContext(ctx, filepath.Join(c.Bin, binary), "--kubeconfig="+kubeconfig, "--namespace="+namespace,
		"--health-probe-bind-address=0", "--metrics-bind-address=0").CombinedOutput()
	require.NoError(t, ctx.Err(), "the program has started: %s", out)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	return string(out)
}
