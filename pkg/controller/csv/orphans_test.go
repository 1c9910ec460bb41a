package csv

import (
	"slices"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/recorded"
)

// byDefault makes ServiceAccount "boss", which may do everything, the default account of the installation.
func byDefault(w *world) {
	w.options.Default = scoped.Default{Account: types.NamespacedName{Namespace: "remit", Name: "boss"}}
	w.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "remit"}}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "boss"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "boss"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "all"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "remit", Name: "boss"}}},
		group("og", "", "t1"))
}

// vanished deletes the ClusterServiceVersion after its finalizer was removed.
func vanished(w *world) {
	editing(func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Finalizers = nil })(w)
	w.Delete(w.csv)
}

// olmAPI returns an APIService that carries OLM's owner labels for the demo in a namespace.
func olmAPI(namespace string, edits ...func(*apiregistrationv1.APIService)) *apiregistrationv1.APIService {
	out := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.hats.example.com", Labels: map[string]string{
			names.LabelOwner: "demo.v1.0.0", names.LabelOwnerKind: "ClusterServiceVersion", names.LabelOwnerNamespace: namespace,
		}},
		Spec: apiregistrationv1.APIServiceSpec{Group: "hats.example.com", Version: "v1"},
	}
	for _, edit := range edits {
		edit(out)
	}
	return out
}

func servedBy(namespace, name string) func(*apiregistrationv1.APIService) {
	return func(api *apiregistrationv1.APIService) {
		api.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: namespace, Name: name}
	}
}

func TestRemovesWhatADeletedCSVLeftBehind(t *testing.T) {
	t.Parallel()
	admission := hooked(operatorsv1alpha1.ValidatingAdmissionWebhook)
	api := []change{serves, settled, available("demo"), settled}
	existing := with(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "svc"}})
	nothing := effect{}
	deletes := func(what string) effect { return effect{writes: []string{what}} }
	hats := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "hats.hats.example.com"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "hats.example.com"}}
	compat := func(api *apiregistrationv1.APIService, more ...change) []change {
		return slices.Concat([]change{byDefault, with(api), vanished}, more)
	}
	checkRows(t, []row{
		{"a webhook", []change{admission, installed, vanished}, deletes("acct: delete ValidatingWebhookConfiguration a.example.com-#")},
		{"an API", append(api, vanished), deletes("acct: delete APIService v1.widgets.example.com")},
		{"a conversion", []change{converts, owned, installed, vanished, without(deploymentOf("demo"))}, deletes("acct: patch CustomResourceDefinition things.example.com")},
		{"a conversion stays while the operator's Deployment exists", []change{converts, owned, installed, vanished}, nothing},
		{"no conversion without a proof", []change{converts, owned, installed, vanished, without(deploymentOf("demo")), unprovenCRD}, nothing},
		{"nothing without a permission", []change{admission, installed, vanished, may(rule("", "pods", "get"))}, nothing},
		{"nothing without an account", []change{admission, installed, vanished, without(group("og", ""))}, nothing},
		{"nothing without a proof", []change{admission, installed, vanished, unprovenHook}, nothing},
		{"nothing of an earlier namespace with the same name", []change{admission, installed, vanished, recreated}, nothing},
		{"nothing while another version of the lineage exists", []change{admission, installed, next, vanished}, nothing},
		{"no API with OLM's labels in a group with its own account", []change{with(olmAPI("t1")), vanished}, nothing},
		{"an API with OLM's labels", compat(olmAPI("t1")), deletes("boss: delete APIService v1.hats.example.com")},
		{"an API with OLM's labels for a Service that does not exist", compat(olmAPI("t1", servedBy("t1", "svc"))), deletes("boss: delete APIService v1.hats.example.com")},
		{"no API with OLM's labels for a Service that exists", compat(olmAPI("t1", servedBy("t1", "svc")), existing), nothing},
		{"no API with OLM's labels for a Service in another namespace", compat(olmAPI("t1", servedBy("t2", "svc"))), nothing},
		{"no API with OLM's labels that a CustomResourceDefinition serves", compat(olmAPI("t1"), with(hats)), nothing},
		{"no API with OLM's labels that the API server maintains", compat(olmAPI("t1", func(api *apiregistrationv1.APIService) {
			api.Labels[labelAutomanaged] = "true"
		})), nothing},
		{"no API with OLM's labels in an API group of Kubernetes", compat(olmAPI("t1", func(api *apiregistrationv1.APIService) { api.Spec.Group = "apps" })), nothing},
	})
}

// owned adds the labels of the demo to the CustomResourceDefinition that it converts.
func owned(w *world) {
	recorded.Edit(w.Server, things(), func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Labels[names.LabelOwner], crd.Labels[names.LabelOwnerKind], crd.Labels[names.LabelOwnerNamespace] = "demo.v1.0.0", "ClusterServiceVersion", "t1"
	})
}

func TestOrphansWakeTheCSVThatTheyName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, err := New(w.options)
	require.NoError(t, err)
	other := olmAPI("t2")
	unlabeled := olmAPI("t1")
	delete(unlabeled.Labels, names.LabelOwnerKind)
	crd := things()
	crd.Labels = other.Labels
	converted := crd.DeepCopy()
	converted.Annotations = map[string]string{names.AnnotationConversion: "t2/demo-service"}
	for _, row := range []struct {
		name string
		obj  client.Object
		want []ctrl.Request
	}{
		{"the owner exists", olmAPI("t1"), nil},
		{"the owner does not exist", other, request("t2", "demo.v1.0.0")},
		{"without OLM's labels", unlabeled, nil},
		{"a CustomResourceDefinition without a conversion", crd, nil},
		{"a CustomResourceDefinition with a conversion", converted, request("t2", "demo.v1.0.0")},
	} {
		require.Equal(t, row.want, r.orphaned(t.Context(), row.obj), row.name)
	}
	w.Put(other)
	og := group("og", "acct")
	require.Equal(t, request("t1", "demo.v1.0.0"), r.grouped(t.Context(), og))
	og.Namespace = "t2"
	require.Equal(t, request("t2", "demo.v1.0.0"), r.grouped(t.Context(), og), "the OperatorGroup may name the account that removes the orphan")
}

func TestBindingsOfTheDefaultAccountHaveTheNamesOfOLM(t *testing.T) {
	t.Parallel()
	serving := []string{"remit: patch ClusterServiceVersion t1/demo.v1.0.0", "boss: patch ClusterServiceVersion t1/demo.v1.0.0", "boss: apply Role t1/demo-service-cert", "boss: apply RoleBinding t1/demo-service-cert"}
	bind := func(toAsk, toRead string) effect {
		return installs(toInstall, slices.Concat(serving, []string{"boss: apply ClusterRoleBinding " + toAsk, "boss: apply RoleBinding kube-system/" + toRead,
			"boss: apply Role t1/demo.v1.0.0-condition-#", "boss: apply RoleBinding t1/demo.v1.0.0-condition-#", "boss: apply Service t1/demo-service",
			"boss: apply Secret t1/demo-service-cert", "boss: apply Deployment t1/demo"})...)
	}
	theirs := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "demo-service-system:auth-delegator"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "x"}}
	checkRows(t, []row{
		{"the names are free", []change{byDefault, identified, serves}, bind("demo-service-system:auth-delegator", "demo-service-auth-reader")},
		{"one name belongs to another owner", []change{byDefault, identified, with(theirs), serves}, bind("demo-service-system:auth-delegator-#", "demo-service-auth-reader")},
		{"an installed operator keeps the names", []change{byDefault, identified, serves, settled, available("demo"), settled, passing(time.Second)}, effect{phase: phaseInstalling,
			reason: reasonWaiting, message: "installing: APIService v1.widgets.example.com is not available: missing condition", after: 5*time.Minute - time.Second}},
	})
}

// unprovenCRD removes the proof from the CustomResourceDefinition that the demo converts.
func unprovenCRD(w *world) {
	recorded.Edit(w.Server, things(), func(crd *apiextensionsv1.CustomResourceDefinition) { delete(crd.Annotations, names.AnnotationProof) })
}

// unprovenHook removes the proof from the demo's webhook configuration.
func unprovenHook(w *world) {
	list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	require.NoError(w.t, w.Cached("remit").List(w.t.Context(), list))
	for i := range list.Items {
		delete(list.Items[i].Annotations, names.AnnotationProof)
		w.Put(&list.Items[i])
	}
}

func TestNothingIsOrphanedIfTheCSVIsMissingOnlyFromTheCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hooked(operatorsv1alpha1.ValidatingAdmissionWebhook)(w)
	installed(w)
	require.NoError(t, w.r.removeOrphans(t.Context(), client.ObjectKeyFromObject(w.csv)))
	require.Empty(t, w.Writes())
}
