package webhook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// defaultPort and defaultPath are the defaults of the contract.
const (
	defaultPort = 443
	defaultPath = "/"
)

// Input contains the data from which the webhook configurations of one install are rendered.
type Input struct {
	CSV   *operatorsv1alpha1.ClusterServiceVersion
	Owner ownerutil.Owner
	Group Group
	// NamespaceUID is the UID of the CSV's namespace.
	NamespaceUID types.UID
	// Trust returns the caBundle for a Deployment's webhooks. If Trust is nil or returns nil, the field is not set, so
	// that another manager can set it.
	Trust func(deployment string) []byte
	// Annotations returns annotations that make a certificate tool inject the caBundle for a Deployment's webhooks; nil
	// means that there are none.
	Annotations func(deployment string) map[string]string
	// Scopes returns the scope of a resource, as Builtin does. It is required for admission webhooks of a bounded
	// group.
	Scopes Scopes
	// Holds reports whether the account has a cluster-wide rule; nil means that it does not.
	Holds func(rbacv1.PolicyRule) bool
}

// Configuration is a webhook configuration to be applied.
type Configuration struct {
	*unstructured.Unstructured
	// Deployment is the name of the Deployment that serves the webhook.
	Deployment string
	// Hash is the hash of the webhook's description, which changes if the description changes.
	Hash string
}

// Desired returns the configurations of the CSV's admission webhooks, in the order of the CSV.
func Desired(in Input) ([]Configuration, error) {
	var out []Configuration
	for i := range in.CSV.Spec.WebhookDefinitions {
		d := &in.CSV.Spec.WebhookDefinitions[i]
		if d.Type == operatorsv1alpha1.ConversionWebhook {
			continue
		}
		obj, err := in.render(d)
		if err != nil {
			return nil, fmt.Errorf("webhook %q: %w", d.GenerateName, err)
		}
		if in.Group.reachesNothing() {
			obj = Off(obj)
		}
		out = append(out, obj)
	}
	return out, nil
}

// Name returns the name of a webhook's configuration. It ends in a hash where the contract has random characters, so
// that the name is stable and differs from those of other installs of the operator. A ClusterExtension is the only install
// in the cluster, and its configurations are named after the webhook, as in OLM v1.
func Name(d *operatorsv1alpha1.WebhookDescription, lineage ownerutil.Lineage) string {
	if lineage.Extension != "" {
		return d.GenerateName
	}
	return d.GenerateName + "-" + ownerutil.Hash(lineage.Namespace, lineage.Package, string(d.Type), d.GenerateName)
}

func (in Input) render(d *operatorsv1alpha1.WebhookDescription) (Configuration, error) {
	encoded, err := json.Marshal(d)
	if err != nil {
		return Configuration{}, err
	}
	hash := ownerutil.Hash(string(encoded))
	meta := metav1.ObjectMeta{Name: Name(d, in.Owner.Lineage), Labels: in.Owner.Labels(), Annotations: in.annotations(d.DeploymentName)}
	meta.Labels[names.LabelWebhookGenerateName] = ownerutil.LabelValue(d.GenerateName)
	meta.Labels[names.LabelWebhookHash] = hash
	meta.OwnerReferences = in.Owner.Outside(in.NamespaceUID)
	obj, err := apply.Object(in.configuration(d, meta))
	return Configuration{Unstructured: obj, Deployment: d.DeploymentName, Hash: hash}, err
}

func (in Input) configuration(d *operatorsv1alpha1.WebhookDescription, meta metav1.ObjectMeta) runtime.Object {
	kind := metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String()}
	rules := d.Rules
	if in.Group.Bounded {
		rules = bounded(d, in.Scopes, in.holds)
	}
	if d.Type == operatorsv1alpha1.MutatingAdmissionWebhook {
		kind.Kind = "MutatingWebhookConfiguration"
		return &admissionregistrationv1.MutatingWebhookConfiguration{TypeMeta: kind, ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: d.GenerateName, ClientConfig: in.clientConfig(d), Rules: rules, FailurePolicy: d.FailurePolicy, MatchPolicy: d.MatchPolicy,
			NamespaceSelector: in.Group.namespaces(), ObjectSelector: d.ObjectSelector, SideEffects: d.SideEffects,
			TimeoutSeconds: d.TimeoutSeconds, AdmissionReviewVersions: d.AdmissionReviewVersions, ReinvocationPolicy: d.ReinvocationPolicy,
		}}}
	}
	kind.Kind = "ValidatingWebhookConfiguration"
	return &admissionregistrationv1.ValidatingWebhookConfiguration{TypeMeta: kind, ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: d.GenerateName, ClientConfig: in.clientConfig(d), Rules: rules, FailurePolicy: d.FailurePolicy, MatchPolicy: d.MatchPolicy,
		NamespaceSelector: in.Group.namespaces(), ObjectSelector: d.ObjectSelector, SideEffects: d.SideEffects,
		TimeoutSeconds: d.TimeoutSeconds, AdmissionReviewVersions: d.AdmissionReviewVersions,
	}}}
}

// clientConfig returns the client configuration of a webhook. It always refers to the Service of the CSV's own
// Deployment.
func (in Input) clientConfig(d *operatorsv1alpha1.WebhookDescription) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{
			Namespace: in.CSV.Namespace, Name: cert.ServiceName(d.DeploymentName), Path: ptr.To(path(d)), Port: ptr.To(port(d)),
		},
		CABundle: in.trust(d.DeploymentName),
	}
}

func path(d *operatorsv1alpha1.WebhookDescription) string {
	return cmp.Or(ptr.Deref(d.WebhookPath, ""), defaultPath)
}

// port returns the Service port at which a webhook is called.
func port(d *operatorsv1alpha1.WebhookDescription) int32 { return cmp.Or(d.ContainerPort, defaultPort) }

// Target returns the Pod port that a webhook specifies, or nil if the Service must forward requests to the same port
// number. The API server treats 0 and "" as unset (OLM v0 contract).
func Target(d *operatorsv1alpha1.WebhookDescription) *intstr.IntOrString {
	if t := d.TargetPort; t != nil && *t != intstr.FromInt32(0) && *t != intstr.FromString("") {
		return t
	}
	return nil
}

func (in Input) trust(deployment string) []byte {
	if in.Trust == nil {
		return nil
	}
	return in.Trust(deployment)
}

func (in Input) annotations(deployment string) map[string]string {
	if in.Annotations == nil {
		return nil
	}
	return in.Annotations(deployment)
}

func (in Input) holds(rules ...rbacv1.PolicyRule) bool {
	return in.Holds != nil && !slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return !in.Holds(rule) })
}

// Off returns the configuration without its webhook, so that the API server neither calls the webhook nor rejects
// requests because the webhook does not respond.
func Off(c Configuration) Configuration {
	c.Unstructured = c.DeepCopy()
	c.Object["webhooks"] = []any{}
	return c
}
