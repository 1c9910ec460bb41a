package env

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// blockedByTest is the message with which the API server rejects requests while a Blocker exists.
const blockedByTest = "blocked by the test"

// Blocker makes the API server reject the creation of one object in the tenant's namespace.
type Blocker struct {
	tn      *Tenant
	obj     client.Object
	policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Block rejects the creation of the object but allows the account's dry runs, so that a plan stops when it creates the
// object. It returns once the API server rejects the creation. The object must be valid. As in most policies, the validation
// has no reason, so that the API server responds with the code for invalid objects.
func (tn *Tenant) Block(obj client.Object) *Blocker {
	tn.T.Helper()
	return tn.block(obj, fmt.Sprintf("request.?dryRun.orValue(false) && request.userInfo.username == %q",
		scoped.Username(tn.Account.Namespace, tn.Account.Name)))
}

// Refuse rejects the creation of the object, including dry runs, as administrators' policies do.
func (tn *Tenant) Refuse(obj client.Object) *Blocker {
	tn.T.Helper()
	return tn.block(obj, "false")
}

func (tn *Tenant) block(obj client.Object, unless string) *Blocker {
	tn.T.Helper()
	obj.SetNamespace(tn.Namespace)
	mapping := tn.mapping(obj)
	name := "block-" + tn.Namespace + "-" + rand.String(5)
	b := &Blocker{tn: tn, obj: obj,
		policy: &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: tn.Namespace}},
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule: admissionregistrationv1.Rule{
							APIGroups:   []string{mapping.Resource.Group},
							APIVersions: []string{mapping.Resource.Version},
							Resources:   []string{mapping.Resource.Resource},
						},
					}}},
				},
				Validations: []admissionregistrationv1.Validation{{
					Expression: fmt.Sprintf("object.metadata.name != %q || %s", obj.GetName(), unless),
					Message:    blockedByTest,
				}},
			},
		},
		binding: &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName:        name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}
	tn.Create(b.policy)
	tn.Create(b.binding)
	tn.Eventually(func(c *assert.CollectT) { assert.ErrorContains(c, b.try(), blockedByTest) })
	return b
}

func (tn *Tenant) mapping(obj client.Object) *meta.RESTMapping {
	tn.T.Helper()
	gvk, err := apiutil.GVKForObject(obj, tn.Cluster.Client.Scheme())
	require.NoError(tn.T, err)
	mapping, err := tn.Cluster.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	require.NoError(tn.T, err)
	return mapping
}

// try sends a dry run of the creation. It returns nil if the object already exists, because the API server must then
// have allowed its creation.
func (b *Blocker) try() error {
	obj, _ := b.obj.DeepCopyObject().(client.Object)
	err := b.tn.Cluster.Client.Create(b.tn.T.Context(), obj, client.DryRunAll)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Remove removes the rejection and returns once the object can be created.
func (b *Blocker) Remove() {
	b.tn.T.Helper()
	require.NoError(b.tn.T, b.tn.Cluster.Client.Delete(b.tn.T.Context(), b.binding))
	require.NoError(b.tn.T, b.tn.Cluster.Client.Delete(b.tn.T.Context(), b.policy))
	b.tn.Eventually(func(c *assert.CollectT) { assert.NoError(c, b.try()) })
}
