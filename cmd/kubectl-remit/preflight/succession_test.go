package preflight

import (
	"context"
	"errors"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
)

// neverInstalled has the label of a lineage, which every user who may write it can set, and the API of another tenant in its spec.
const neverInstalled = `
metadata: {namespace: team-a, name: app.v0.9.0, uid: earlier}
spec:
  version: 0.9.0
  installModes: [{type: OwnNamespace, supported: true}]
  apiservicedefinitions: {owned: [{group: victim.example.com, version: v1, kind: Thing, name: things, deploymentName: app, containerPort: 443}]}
  install:
    strategy: deployment
    spec:
      clusterPermissions: [{serviceAccountName: app, rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]}]
      deployments:
      - name: app
        spec:
          selector: {matchLabels: {app: app}}
          template: {metadata: {labels: {app: app}}, spec: {serviceAccountName: app, containers: [{name: manager, image: "images.test/app:1"}]}}
`

// upgrading returns the check of an upgrade of app.v0.9.0, and the owner of its objects.
func upgrading(t *testing.T, funcs interceptor.Funcs, live ...client.Object) (*input, *operatorsv1alpha1.ClusterServiceVersion) {
	t.Helper()
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "app", Namespace: "team-a"}, CSV: "app.v1.0.0", Proofs: unverified{}}
	from := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(t, yaml.Unmarshal([]byte(neverInstalled), from))
	from.Labels = owner.Labels()
	to, err := apply.Object(&operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: owner.CSV}})
	require.NoError(t, err)
	to.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	scheme, err := controller.NewScheme()
	require.NoError(t, err)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(live, from)...).WithInterceptorFuncs(funcs).Build()
	return &input{client: c, namespace: "team-a", targets: []string{"team-a"},
		steps: []step.Step{{Object: to, Owner: owner, Install: &step.Install{Targets: []string{"team-a"}}}}}, from
}

// apiOf returns the APIService that the ClusterServiceVersion names, with the label of an install of a package.
func apiOf(pkg string) *apiregistrationv1.APIService {
	out := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.victim.example.com"}}
	if pkg != "" {
		out.Labels = ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: "team-a"}}.Labels()
	}
	return out
}

func removed(t *testing.T, i *input) (objects, notes []string) {
	t.Helper()
	needs, more, err := i.successions(t.Context())
	require.NoError(t, err)
	require.Empty(t, more)
	for _, n := range needs {
		objects = append(objects, n.Object)
	}
	return objects, i.examined.notes()
}

func TestAnUpgradeRemovesOnlyWhatHasTheLabelOfTheInstall(t *testing.T) {
	const always = "ClusterServiceVersion team-a/app.v0.9.0"
	for name, row := range map[string]struct {
		live client.Object
		want []string
	}{
		"it does not exist":       {nil, []string{always}},
		"another tenant's":        {apiOf(""), []string{always}},
		"that of another install": {apiOf("other"), []string{always}},
		"that of the install":     {apiOf("app"), []string{always, "APIService v1.victim.example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			var live []client.Object
			if row.live != nil {
				live = append(live, row.live)
			}
			i, _ := upgrading(t, interceptor.Funcs{}, live...)
			got, notes := removed(t, i)
			require.Equal(t, row.want, got)
			require.Empty(t, notes)
		})
	}
}

func TestAnUpgradeRemovesTheRolesOfTheInstall(t *testing.T) {
	i, from := upgrading(t, interceptor.Funcs{})
	older := i.steps[0].Owner
	older.CSV, older.UID = from.Name, from.UID
	objs, err := build.OperatorRBAC(from, older, i.targets)
	require.NoError(t, err)
	var want []string
	for _, obj := range objs {
		if obj.GetNamespace() != "" {
			continue
		}
		want = append(want, apply.Describe(obj))
		meta := metav1.ObjectMeta{Name: obj.GetName(), Labels: obj.GetLabels()}
		var live client.Object = &rbacv1.ClusterRole{ObjectMeta: meta}
		if obj.GetKind() == "ClusterRoleBinding" {
			live = &rbacv1.ClusterRoleBinding{ObjectMeta: meta}
		}
		require.NoError(t, i.client.Create(t.Context(), live))
	}
	require.Len(t, want, 2)
	got, _ := removed(t, i)
	require.Subset(t, got, want)
}

func TestSaysWhatCannotBeExamined(t *testing.T) {
	reads := 0
	i, _ := upgrading(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if obj.GetObjectKind().GroupVersionKind().Kind != "APIService" {
			return c.Get(ctx, key, obj, opts...)
		}
		reads++
		return apierrors.NewForbidden(schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}, key.Name, errors.New("no"))
	}}, apiOf("app"))
	for range 2 {
		got, notes := removed(t, i)
		require.NotContains(t, got, "APIService v1.victim.example.com")
		require.Len(t, notes, 1)
		require.Contains(t, notes[0], "1 object(s) that an upgrade may remove could not be examined")
		require.Contains(t, notes[0], "apiservices")
	}
	require.Equal(t, 1, reads)

	var e examined
	for n := range maxExamined + 2 {
		e.owns(t.Context(), i.client, apply.Reference(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), "", string(rune('a'+n))), ownerutil.Lineage{})
	}
	require.Len(t, e.asked, maxExamined)
	require.Equal(t, 2, e.unread)
}
