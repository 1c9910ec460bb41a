package bundle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/versions"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

// maxDepth bounds the nesting depth of a manifest, and maxManifestCost the estimated memory for decoding it. The manifests of
// the corpus need at most 10 MiB.
const maxDepth, maxManifestCost = 200, 40 << 20

// maxTextCost bounds the estimated memory for converting the text of a manifest, which a registry may send as YAML; the most that a
// manifest in the corpus needs is 53 MiB.
const maxTextCost = 96 << 20

// slots is the number of costly texts that are converted at the same time, and MaxMemory bounds the estimated memory for them, in bytes
// (docs/adr/0091).
const (
	slots     = 2
	MaxMemory = slots * maxTextCost
)

// costlyText is the cost above which a text counts as costly. The process converts few costly texts at the same time.
const costlyText = 8 << 20

// costly shares the conversion of costly texts between the namespaces that request them.
var costly = turns.Turns{Slots: slots, Share: 1}

// begin waits until a text may be converted. The caller must call end.
func begin(ctx context.Context, cost int64) (end func(), err error) {
	if cost <= costlyText {
		return func() {}, nil
	}
	turn, _, err := costly.Join(ctx, catalog.Requester(ctx))
	if err != nil {
		return nil, err
	}
	return turn.Leave, nil
}

func tooCostly(cost, limit int64) error {
	return fmt.Errorf("manifest would need about %d MiB of memory; at most %d are allowed: use fewer list entries", cost>>20, limit>>20)
}

// parseObject parses one object and removes its status and the metadata that a bundle's author must not set (escape suite
// 85, 118, 119).
func parseObject(data []byte) (*unstructured.Unstructured, error) {
	if len(data) > MaxManifestBytes {
		return nil, fmt.Errorf("manifest is %d bytes long as JSON; at most %d are allowed", len(data), MaxManifestBytes)
	}
	if cost := catalog.JSONCost(data); cost > maxManifestCost {
		return nil, tooCostly(cost, maxManifestCost)
	}
	if err := checkDepth(data); err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &obj.Object); err != nil || obj.GetKind() == "" {
		return nil, fmt.Errorf("not an object with a kind")
	}
	if err := checkType(obj); err != nil {
		return nil, err
	}
	if obj.IsList() {
		return nil, fmt.Errorf("each manifest must be one object, but found a list (%s)", obj.GetKind())
	}
	if name, odd := apply.OddName(obj.Object); odd {
		return nil, fmt.Errorf("%s: a field name contains control characters: %.100q", obj.GetKind(), name)
	}
	if obj.GetKind() == operatorsv1alpha1.ClusterServiceVersionKind && obj.GetAPIVersion() == "" {
		return nil, fmt.Errorf("%s %q: missing APIVersion", obj.GetKind(), obj.GetName())
	}
	completeType(obj)
	if err := checkTexts(obj); err != nil {
		return nil, err
	}
	return obj, strip(obj)
}

// completeType sets the API version of every ClusterServiceVersion, and adds a missing API version to objects of other
// supported kinds: published bundles contain ClusterServiceVersions in made-up groups, and roles without an apiVersion.
func completeType(obj *unstructured.Unstructured) {
	if obj.GetKind() == operatorsv1alpha1.ClusterServiceVersionKind {
		obj.SetAPIVersion(operatorsv1alpha1.SchemeGroupVersion.String())
		return
	}
	if obj.GetAPIVersion() != "" {
		return
	}
	for _, k := range Kinds() {
		if k.Kind == obj.GetKind() {
			obj.SetAPIVersion(schema.GroupVersion{Group: k.Group, Version: "v1"}.String())
		}
	}
}

// checkTexts refuses a ClusterServiceVersion with texts that its Go type would parse at a great cost. The author of a bundle chooses
// how its JSON is encoded, so it is encoded again.
func checkTexts(obj *unstructured.Unstructured) error {
	if obj.GetKind() != operatorsv1alpha1.ClusterServiceVersionKind {
		return nil
	}
	version, _, _ := unstructured.NestedString(obj.Object, "spec", "version")
	data, err := json.Marshal(obj.Object)
	if err = cmp.Or(err, versions.Check(version)); err == nil {
		err = cmp.Or(budget.CheckStructures(data), budget.CheckQuantities(data))
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

func checkDepth(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	depth := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("invalid JSON: %w", err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth > maxDepth {
			return fmt.Errorf("manifest is nested more than %d levels deep", maxDepth)
		}
	}
}

func strip(obj *unstructured.Unstructured) error {
	gvk := obj.GroupVersionKind()
	if _, ok := KindOf(gvk.GroupKind()); !ok {
		return &UnsupportedKindError{GVK: gvk, Name: obj.GetName()}
	}
	if obj.GetGenerateName() != "" {
		return fmt.Errorf("%s: metadata.generateName is not allowed", gvk.Kind)
	}
	if err := checkName(obj); err != nil {
		return err
	}
	metadata := map[string]any{"name": obj.GetName()}
	if namespace := obj.GetNamespace(); namespace != "" {
		metadata["namespace"] = namespace
	}
	labels, labelsErr := stringMap(obj, "labels", isOwnerLabel)
	annotations, err := stringMap(obj, "annotations", isOwnAnnotation)
	if err := errors.Join(labelsErr, err); err != nil {
		return err
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	obj.Object["metadata"] = metadata
	delete(obj.Object, "status")
	return nil
}

// checkName refuses names that the API server would refuse and, because names are used in paths, names that could change a
// path.
func checkName(obj *unstructured.Unstructured) error {
	name := obj.GetName()
	if name == "" {
		return fmt.Errorf("%s: metadata.name is missing or not a string", obj.GetKind())
	}
	namespace, _, err := unstructured.NestedString(obj.Object, "metadata", "namespace")
	if err != nil {
		return fmt.Errorf("%s %q: %w", obj.GetKind(), name, err)
	}
	if err := message.CheckWord("metadata.namespace", namespace); err != nil { // real bundles contain PLACEHOLDER_NAMESPACE
		return fmt.Errorf("%s %q: %w", obj.GetKind(), name, err)
	}
	problems := content.IsPathSegmentName(name)
	if IsRBAC(obj) { // RBAC names can contain colons and capital letters
		problems = append(problems, isPlain(name)...)
		if len(name) > validation.DNS1123SubdomainMaxLength {
			problems = append(problems, validation.MaxLenError(validation.DNS1123SubdomainMaxLength))
		}
	} else {
		problems = append(problems, validation.IsDNS1123Subdomain(name)...)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s: metadata.name %q: %s", obj.GetKind(), message.Start(name), problems[0])
	}
	return nil
}

// isPlain returns a description of the problem if an RBAC name contains spaces, newlines or shell metacharacters. The API server
// allows such names, but Remit's messages contain RBAC names in manifests and commands that users copy.
func isPlain(name string) []string {
	other := func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(":._@-", r)
	}
	if name[0] == '-' || strings.ContainsFunc(name, other) {
		return []string{"must contain only letters, digits and :._@-, and must not begin with -"}
	}
	return nil
}

// secretTypes lists the Secret types that a bundle can contain, in addition to token Secrets for its own
// ServiceAccounts.
func secretTypes() []corev1.SecretType {
	return []corev1.SecretType{
		"", corev1.SecretTypeOpaque, corev1.SecretTypeTLS, corev1.SecretTypeDockerConfigJson,
		corev1.SecretTypeDockercfg, corev1.SecretTypeBasicAuth, corev1.SecretTypeSSHAuth,
	}
}

// checkSecret allows token Secrets only for ServiceAccounts that the bundle creates. For any other ServiceAccount, the
// API server would write its token into the tenant's Secret (escape suite 52).
func checkSecret(obj *unstructured.Unstructured, accounts []string) error {
	if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return nil
	}
	text, _, err := unstructured.NestedString(obj.Object, "type")
	if err != nil {
		return fmt.Errorf("Secret %q: %w", obj.GetName(), err)
	}
	secretType := corev1.SecretType(text)
	if slices.Contains(secretTypes(), secretType) {
		return nil
	}
	owner := obj.GetAnnotations()[corev1.ServiceAccountNameKey]
	if secretType == corev1.SecretTypeServiceAccountToken && slices.Contains(accounts, owner) {
		return nil
	}
	return fmt.Errorf("Secret %q: type %q is not allowed in a bundle (service account tokens are allowed only for ServiceAccounts that the bundle creates)",
		obj.GetName(), secretType)
}
