package installplan

import (
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/webhook"
)

const demoWebhook = `{type: ValidatingAdmissionWebhook, generateName: v.example.com, deploymentName: demo, containerPort: 443, admissionReviewVersions: [v1], sideEffects: None,
     rules: [{operations: [CREATE], apiGroups: [example.com], apiVersions: [v1], resources: [things]}]}`

const demoConversion = `{type: ConversionWebhook, generateName: c.example.com, deploymentName: demo, containerPort: 443, admissionReviewVersions: [v1], sideEffects: None,
     conversionCRDs: [things.example.com]}`

// withHook makes the demo serve a webhook.
func withHook(definition string) change {
	return bundled(strings.Replace(demoCSV, "  version: 1.0.0\n", "  version: 1.0.0\n  webhookdefinitions:\n  - "+definition+"\n", 1), demoCRD, demoConfigMap)
}

// The csv controller writes these objects only after the plan is complete. The plan must not begin if it cannot.
func TestCollisionsOfSupportingObjectsAreKnownBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	reader := meta(cert.SecretName("demo"))
	hook := webhook.Name(&operatorsv1alpha1.WebhookDescription{GenerateName: "v.example.com", Type: "ValidatingAdmissionWebhook"}, lineage("demo").Lineage)
	for _, row := range []struct {
		name    string
		webhook string
		object  client.Object
		want    string
	}{
		{"a Service", demoWebhook, &corev1.Service{ObjectMeta: meta(cert.ServiceName("demo"))}, "Service ns/demo-service"},
		{"a Secret", demoWebhook, &corev1.Secret{ObjectMeta: meta(cert.SecretName("demo"))}, "Secret ns/demo-service-cert"},
		{"a Role", demoWebhook, &rbacv1.Role{ObjectMeta: reader}, "Role ns/demo-service-cert"},
		{"a RoleBinding", demoWebhook, &rbacv1.RoleBinding{ObjectMeta: reader, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "other"}}, "RoleBinding ns/demo-service-cert"},
		{"a binding of a planned role", demoWebhook, &rbacv1.RoleBinding{ObjectMeta: meta("theirs"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: reader.Name},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "u"}}}, "RoleBinding ns/theirs"},
		{"a webhook", demoWebhook, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: hook}}, "ValidatingWebhookConfiguration " + hook},
		{"a CustomResourceDefinition to convert", demoConversion, existingCRD(t, func(*apiextensionsv1.CustomResourceDefinition) {}), "CustomResourceDefinition things.example.com"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withHook(row.webhook), with(row.object))
			if row.webhook == demoConversion {
				everywhere(w)
			}
			got := w.reconcile()
			require.Equal(t, "True RefusedByRemit", got.refused, got.message)
			require.Contains(t, w.plan.Status.Message, row.want+" already exists and was not created by this install")
			require.Equal(t, []string{writesReport}, withoutEvents(got.writes), "nothing but the report is written")
		})
	}
	require.Equal(t, "False AcceptedByAPIServer", newWorld(t, withHook(demoWebhook)).reconcile().refused)
}

// everywhere installs the demo in all namespaces, as an operator with a conversion webhook must be.
func everywhere(w *world) {
	for i := range w.manifests {
		w.manifests[i] = strings.Replace(w.manifests[i], "[{type: OwnNamespace, supported: true}, {type: SingleNamespace, supported: true}]", "[{type: AllNamespaces, supported: true}]", 1)
	}
	og := operatorGroup("og", "acct")
	og.Spec.TargetNamespaces = nil
	w.Put(og)
	w.Delete(w.plan)
	w.pin.Digest, w.plan.Name, w.plan.ResourceVersion = "", "", ""
	w.putPlan()
}

func withoutEvents(writes []string) []string {
	var out []string
	for _, w := range writes {
		if !strings.HasPrefix(w, "event: ") {
			out = append(out, w)
		}
	}
	return out
}

// A Pod of the operator that mounts the Secret would have all permissions of the ServiceAccount.
func TestTokensOfServiceAccountsThatExceedTheAccountAreNotWritten(t *testing.T) {
	t.Parallel()
	const token = `{apiVersion: v1, kind: Secret, metadata: {name: token, annotations: {kubernetes.io/service-account.name: op}}, type: kubernetes.io/service-account-token}`
	op := `{apiVersion: v1, kind: ServiceAccount, metadata: {name: op}}`
	cluster := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "given", CreationTimestamp: metav1.Now()}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "urls"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ns", Name: "op"}}}
	urls := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "urls"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/x"}, Verbs: []string{"get"}}}}
	of := func(pkg string, at time.Time) client.Object {
		return createdFor(pkg, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op", CreationTimestamp: metav1.NewTime(at)}})
	}
	for name, row := range map[string]struct {
		changes []change
		refused bool
	}{
		"a new ServiceAccount":                                     {nil, false},
		"one to which a binding exists":                            {[]change{with(urls, cluster)}, true},
		"one of the install, which a user bound later":             {[]change{with(urls, cluster, of("demo", time.Now().Add(-time.Minute)))}, false},
		"one of another install beside it":                         {[]change{with(urls, cluster, of("other", time.Now().Add(-time.Minute)))}, true},
		"one of another install beside it, without any permission": {[]change{with(of("other", time.Now().Add(-time.Minute)))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append([]change{bundled(demoCSV, demoCRD, op, token)}, row.changes...)...)
			got := w.reconcile()
			if !row.refused {
				require.Equal(t, "False AcceptedByAPIServer", got.refused, got.message)
				require.Contains(t, got.writes, "acct: apply Secret ns/token")
				return
			}
			require.Equal(t, "True RefusedByRemit", got.refused, got.message)
			require.Contains(t, w.plan.Status.Message, `Secret "token" may not contain a token of ServiceAccount "op"`)
			require.Equal(t, []string{writesReport}, withoutEvents(got.writes), "nothing but the report is written")
		})
	}
}
