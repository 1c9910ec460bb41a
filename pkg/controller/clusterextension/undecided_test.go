package clusterextension_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
)

const undecidedCSV = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: op.vVERSION}
spec:
  displayName: op
  version: VERSION
  installModes: [{type: OwnNamespace, supported: true}]
  install:
    strategy: deployment
    spec:
      deployments:
      - name: op
        spec:
          selector: {matchLabels: {app: op}}
          template:
            metadata: {labels: {app: op}}
            spec: {containers: [{name: manager, image: example.com/op:v1}]}
  webhookdefinitions:
  - {type: ValidatingAdmissionWebhook, generateName: a.NAME.example.com, deploymentName: op, containerPort: 443, admissionReviewVersions: [v1], sideEffects: None, failurePolicy: Ignore,
    rules: [{apiGroups: [t.example.com], apiVersions: [v1], resources: RESOURCES, operations: [CREATE, UPDATE, DELETE]}]}
  - {type: ValidatingAdmissionWebhook, generateName: b.NAME.example.com, deploymentName: op, containerPort: 443, admissionReviewVersions: [v1], sideEffects: None, failurePolicy: Fail,
    rules: [{apiGroups: [""], apiVersions: [v1], resources: [persistentvolumes], operations: [CREATE, UPDATE, DELETE]}]}
`

// Nothing but Remit checks what a webhook intercepts. An administrator of the namespace can make Remit ask the API server about
// permissions that the identity has, with Roles that are too large to be evaluated: as many as it may ask about, so that no question is
// left for the other webhook.
func TestAWebhookIsNotWrittenWhileItsPermissionsAreUnknown(t *testing.T) {
	w := given(t)
	w.enroll()
	user := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: w.user()}}
	all := []string{"*"}
	w.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "most-" + w.name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "secrets", "serviceaccounts", "configmaps", "pods", "events"}, Verbs: all},
		{APIGroups: []string{"apps", "admissionregistration.k8s.io"}, Resources: all, Verbs: all},
	}})
	w.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "most-" + w.name}, Subjects: user,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "most-" + w.name}})
	bind := func(name string, rules ...rbacv1.PolicyRule) {
		meta := metav1.ObjectMeta{Namespace: w.name, Name: name}
		w.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
		w.create(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}})
	}
	bind("things", rbacv1.PolicyRule{APIGroups: []string{"t.example.com"}, Resources: all, Verbs: all})
	for k := range 2 {
		var many []string
		for i := range 110_000 {
			many = append(many, fmt.Sprintf("%x", i+k*110_000))
		}
		bind(fmt.Sprintf("large%d", k), rbacv1.PolicyRule{APIGroups: []string{"x.example.com"}, Resources: []string{"xs"}, ResourceNames: many, Verbs: []string{"get"}})
	}
	var resources []string
	for i := range 120 {
		resources = append(resources, fmt.Sprintf("r%d", i))
	}
	quoted, err := json.Marshal(resources)
	require.NoError(t, err)
	w.publish("1.0.0", "", strings.ReplaceAll(undecidedCSV, "RESOURCES", string(quoted)))
	w.install(func(ext *olmv1.ClusterExtension) {
		ext.Spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ClusterExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: []byte(`{"watchNamespace":"` + w.name + `"}`)}}
	})
	w.retries("cannot determine whether")
	w.retries("not checked, because the limit of 500 SubjectAccessReviews was reached")
	list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	require.NoError(t, w.admin.List(t.Context(), list, client.MatchingLabels{names.LabelExtensionName: w.name}))
	require.Empty(t, list.Items)
}
