package copiedcsv

import (
	"encoding/json"
	"fmt"
	"maps"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// content is the part that all copies of one ClusterServiceVersion have in common. The spec is that of the cache, and only read. It is
// never converted to maps: these can take ten times its memory, because a few bytes in a list become an entry with many fields.
type content struct {
	labels, annotations map[string]string
	spec                *operatorsv1alpha1.ClusterServiceVersionSpec
	status              *operatorsv1alpha1.ClusterServiceVersionStatus
}

// contentOf renders the content of the copies of a ClusterServiceVersion whose namespace has this OperatorGroup.
func contentOf(csv *operatorsv1alpha1.ClusterServiceVersion, group string) (content, error) {
	st := csv.Status.DeepCopy()
	st.Reason = operatorsv1alpha1.CSVReasonCopied
	st.Message = status.Text(fmt.Sprintf("The operator is running in %s but is managing this namespace", csv.Namespace))
	st.RequirementStatus = nil // names permissions and ServiceAccounts of the source's namespace
	for i := range st.Conditions {
		st.Conditions[i].Message = "" // may describe other targets
	}
	c := content{labels: harmless(csv.Labels), annotations: harmless(csv.Annotations), spec: &csv.Spec, status: st}
	c.labels[names.LabelCopiedFrom] = csv.Namespace
	for _, key := range []string{names.AnnotationTargetNamespaces, corev1.LastAppliedConfigAnnotation} {
		delete(c.annotations, key)
	}
	c.annotations[names.AnnotationOperatorGroup] = group
	c.annotations[names.AnnotationOperatorNamespace] = csv.Namespace
	encoded, err := json.Marshal([]any{c.labels, c.annotations, c.spec, c.status})
	if err != nil {
		return content{}, fmt.Errorf("encode the copy of ClusterServiceVersion %s/%s: %w", csv.Namespace, csv.Name, err)
	}
	c.annotations[names.AnnotationCopyHash] = ownerutil.Commitment(string(encoded))
	return c, nil
}

// harmless returns the labels or annotations that are for display. Others may control programs in the cluster. They are chosen by the
// author of the source, who may have no permissions in the target namespace.
func harmless(all map[string]string) map[string]string {
	kept, _ := bundle.Keep(operatorsv1alpha1.ClusterServiceVersionKind, all)
	maps.DeleteFunc(kept, func(key, _ string) bool { return !bundle.ForDisplay(key) })
	if kept == nil {
		kept = map[string]string{}
	}
	return kept
}

// copyIn returns the copy for a namespace, without a proof.
func (c content) copyIn(namespace, name string) *operatorsv1alpha1.ClusterServiceVersion {
	return &operatorsv1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: maps.Clone(c.labels), Annotations: maps.Clone(c.annotations)},
		Spec:       *c.spec.DeepCopy(), // the response of the API server is decoded into it
	}
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch encodes a JSON patch that sets fields of the object with this resource version. The API server refuses it with a
// conflict if the object has changed since.
func patch(resourceVersion string, set ...operation) ([]byte, error) {
	return json.Marshal(append([]operation{{"add", "/metadata/resourceVersion", resourceVersion}}, set...))
}

// statusPatch sets the whole status.
func (c content) statusPatch(resourceVersion string) ([]byte, error) {
	return patch(resourceVersion, operation{"add", "/status", c.status})
}

// mainPatch sets everything else. proof is the proof that Remit created the copy.
func (c content) mainPatch(resourceVersion, proof string) ([]byte, error) {
	annotations := maps.Clone(c.annotations)
	annotations[names.AnnotationProof] = proof
	return patch(resourceVersion, operation{"add", "/metadata/labels", c.labels},
		operation{"add", "/metadata/annotations", annotations}, operation{"add", "/spec", c.spec})
}
