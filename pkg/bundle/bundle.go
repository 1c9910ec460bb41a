package bundle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Limits for a bundle's content (security model, rule 8; escape suite 29, 74, 109).
const (
	// MaxManifestBytes bounds the size of a manifest as JSON.
	MaxManifestBytes = budget.MaxObjectBytes
	// MaxManifestText bounds the size of a manifest as its author wrote it, for example as indented YAML.
	MaxManifestText = 4 << 20
	// MaxBundleCost bounds the estimated memory for the objects of a bundle (catalog.JSONCost). The bundles of the corpus need at most
	// 20 MiB.
	MaxBundleCost = 48 << 20
	// MaxTextCost bounds the estimated memory for converting the texts of all manifests (catalog.YAMLCost), and with it the time, which
	// is about three seconds. Of the bundles of the corpus, the largest needs 104 MiB.
	MaxTextCost = 512 << 20
	// MaxManifests bounds the number of manifests.
	MaxManifests = 1_000
	// MaxCRDVersions bounds the number of versions of one CustomResourceDefinition: the API server keeps an endpoint, a
	// schema and an APIService for each.
	MaxCRDVersions = 50
)

// Bundle is a parsed bundle.
type Bundle struct {
	// CSV is the ClusterServiceVersion, with disallowed metadata removed.
	CSV *operatorsv1alpha1.ClusterServiceVersion
	// Objects are all other manifests, with disallowed metadata removed, in the order in which a plan applies them.
	Objects []*unstructured.Unstructured
	// Warnings describe the parts that were omitted because an install does not need them: samples and invalid icons.
	Warnings []string
	// Cost is the estimated memory for the objects, in bytes (catalog.JSONCost).
	Cost int64
}

// CostError reports a bundle whose objects need more memory than a limit. Both are estimates in bytes.
type CostError struct{ Cost, Limit int64 }

func (e *CostError) Error() string {
	return fmt.Sprintf("the objects of the bundle would need about %d MiB of memory or more; at most %d are allowed: use less text and fewer list entries", e.Cost>>20, e.Limit>>20)
}

// UnsupportedKindError reports a manifest of a kind that bundles cannot contain.
type UnsupportedKindError struct {
	GVK  schema.GroupVersionKind
	Name string
}

func (e *UnsupportedKindError) Error() string {
	return fmt.Sprintf("manifest %s %q: bundles cannot contain objects of this kind", e.GVK, e.Name)
}

// ParseContent parses the objects in the manifests of one bundle (see catalog.ReadObjects). Each must have a supported kind,
// and exactly one must be a ClusterServiceVersion. Identical duplicates are ignored, and samples of the bundle's own kinds
// are omitted with a warning.
//
// If ctx ends, the error is its cause. The process converts few manifests that need much memory at the same time. The namespaces that
// request them take turns (catalog.RequestedBy), and the time for which others use all places counts as a wait of ctx.
func ParseContent(ctx context.Context, content *catalog.Content) (*Bundle, error) {
	return ParseWithin(ctx, content, MaxBundleCost)
}

// ParseWithin is ParseContent for a bundle whose Cost must not exceed a limit, which is at most MaxBundleCost. Otherwise, it returns a
// *CostError before the memory is allocated.
func ParseWithin(ctx context.Context, content *catalog.Content, limit int64) (*Bundle, error) {
	if n := len(content.Manifests); n > MaxManifests {
		return nil, fmt.Errorf("bundle has %d manifests; at most %d are allowed", n, MaxManifests)
	}
	p := parser{content: content, limit: limit, seen: map[string]int{}, objects: map[int]*unstructured.Unstructured{}}
	p.manifests.Aliases = MaxManifestBytes
	p.bundle.Warnings = slices.Clone(content.Warnings)
	if err := checkText(content.Manifests, limit); err != nil {
		return nil, err
	}
	for i, raw := range content.Manifests {
		if err := p.read(ctx, i, raw); err != nil {
			return nil, err
		}
	}
	b := &p.bundle
	if b.CSV == nil {
		return nil, fmt.Errorf("bundle has no ClusterServiceVersion")
	}
	if err := b.omitSamples(p.samples); err != nil {
		return nil, err
	}
	accounts := b.serviceAccounts()
	for _, i := range slices.Sorted(maps.Keys(p.objects)) {
		obj := p.objects[i]
		if err := errors.Join(checkSecret(obj, accounts), checkRBAC(obj), checkCRD(obj)); err != nil {
			return nil, p.named(p.from[i], err)
		}
	}
	Sort(b.Objects)
	return b, nil
}

// TextCost is the number of bytes of cost for which manifests may have a byte of text. JSON costs as much in any case.
const TextCost = 4

// checkText returns an error if manifests are too large as text. It is a *CostError if they are too large for a limit on the cost of their
// objects: the worker that holds the text must not hold it while it finds that out by parsing it.
func checkText(manifests [][]byte, limit int64) error {
	total := int64(0)
	for _, raw := range manifests {
		total += int64(len(raw))
	}
	if total > catalog.MaxContentBytes {
		return fmt.Errorf("bundle has %d bytes of manifests; at most %d are allowed", total, catalog.MaxContentBytes)
	}
	if cost := TextCost * total; cost > limit {
		return &CostError{cost, limit}
	}
	return nil
}

// parser parses one bundle.
type parser struct {
	content *catalog.Content
	// limit is the maximum of bundle.Cost.
	limit  int64
	bundle Bundle
	// manifests limits what all of them contain together, and textCost is what converting their texts is estimated to need.
	manifests catalog.Manifests
	textCost  int64
	// from contains the index of the manifest that contains each object, including the omitted ones.
	from []int
	// objects maps the number of an object, which is an index into from, to the parsed object; seen maps a kind and name to
	// the number.
	objects map[int]*unstructured.Unstructured
	seen    map[string]int
	// samples collects manifests that may be samples of the operator's own kinds; omitSamples checks them.
	samples []*UnsupportedKindError
}

// read parses the objects of a manifest.
func (p *parser) read(ctx context.Context, i int, raw []byte) error {
	if len(raw) > MaxManifestText {
		return p.named(i, fmt.Errorf("manifest is %d bytes long; at most %d are allowed", len(raw), MaxManifestText))
	}
	cost := catalog.YAMLCost(raw)
	if cost > maxTextCost {
		return p.named(i, tooCostly(cost, maxTextCost))
	}
	if p.textCost += cost; p.textCost > MaxTextCost {
		return fmt.Errorf("the manifests of the bundle have too many values: converting all of them would need more than %d MiB of memory; use fewer list entries", MaxTextCost>>20)
	}
	end, err := begin(ctx, cost)
	if err != nil {
		return err
	}
	defer end()
	warnings, err := p.manifests.ReadObjects(ctx, raw, func(object []byte) error {
		if p.from = append(p.from, i); len(p.from) > MaxManifests {
			return fmt.Errorf("bundle has more than %d objects", MaxManifests)
		}
		if p.bundle.Cost += catalog.JSONCost(object); p.bundle.Cost > p.limit {
			return &CostError{p.bundle.Cost, p.limit}
		}
		return p.parse(object)
	})
	p.warn(i, warnings)
	return p.named(i, err)
}

// warn adds warnings about a manifest. Further warnings are dropped.
func (p *parser) warn(i int, warnings []string) {
	if len(warnings) == 0 {
		return
	}
	name := p.name(i)
	for _, text := range warnings {
		if len(p.bundle.Warnings) < catalog.MaxContentWarnings {
			p.bundle.Warnings = append(p.bundle.Warnings, name+": "+text)
		}
	}
}

// parse parses an object of the manifest that is read.
func (p *parser) parse(data []byte) error {
	obj, err := parseObject(data)
	if sample := asSample(err); sample != nil {
		p.samples = append(p.samples, sample)
		return nil
	}
	if err != nil {
		return err
	}
	number := len(p.from) - 1
	id := obj.GroupVersionKind().GroupKind().String() + " " + obj.GetName()
	if first, ok := p.seen[id]; ok {
		if equality.Semantic.DeepEqual(p.objects[first].Object, obj.Object) {
			return nil
		}
		return fmt.Errorf("bundle has two different manifests for %s; the other is %s", id, p.name(p.from[first]))
	}
	p.seen[id], p.objects[number] = number, obj
	return p.bundle.add(obj)
}

// named adds the name of the manifest to an error.
func (p *parser) named(i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.name(i), err)
}

// name identifies a manifest in messages: by its file name or, if that is unknown, by its number, kind and name.
func (p *parser) name(i int) string {
	if name := p.content.Name(i); name != "" {
		return fmt.Sprintf("manifest %q", name)
	}
	var head struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	raw := p.content.Manifests[i]
	if json.Unmarshal(raw, &head) != nil || head.Kind == "" || !message.IsWord(head.Kind) || len(head.Kind)+len(head.Metadata.Name) > maxIdentity {
		return fmt.Sprintf("manifest %d", i+1)
	}
	return fmt.Sprintf("manifest %d (%s %q)", i+1, head.Kind, head.Metadata.Name)
}

// maxIdentity bounds the total length, in bytes, of a kind and name in a message. Longer ones, and kinds with white space, are omitted.
const maxIdentity = 512

func (b *Bundle) add(obj *unstructured.Unstructured) error {
	if obj.GetKind() != operatorsv1alpha1.ClusterServiceVersionKind {
		b.Objects = append(b.Objects, obj)
		return nil
	}
	if b.CSV != nil {
		return fmt.Errorf("bundle has two ClusterServiceVersions: %q and %q", b.CSV.Name, obj.GetName())
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, csv); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: %w", obj.GetName(), err)
	}
	if size := budget.Of(csv).Decoded(); size > budget.MaxDecodedBytes {
		return fmt.Errorf("ClusterServiceVersion %q: %w", obj.GetName(), &budget.ObjectError{Size: size})
	}
	if err := CheckNames("spec", csv.Spec); err != nil {
		return fmt.Errorf("ClusterServiceVersion %q: %w", obj.GetName(), err)
	}
	b.CSV = csv
	warnings, err := checkIcons(csv)
	b.Warnings = append(b.Warnings, warnings...)
	return errors.Join(err, checkPermissionFields(obj))
}

// serviceAccounts returns the names of the ServiceAccounts that installing the bundle creates, except the default one:
// those in its manifests and those for which its CSV declares permissions.
func (b *Bundle) serviceAccounts() []string {
	out := ServiceAccountNames(b.CSV)
	for _, obj := range b.Objects {
		if obj.GetKind() == "ServiceAccount" {
			out = append(out, obj.GetName())
		}
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == DefaultServiceAccount })
}

// checkRBAC returns an error for an invalid role or binding, which the API server would refuse only after earlier steps
// of the plan have been applied. Other kinds are not checked.
func checkRBAC(obj *unstructured.Unstructured) error {
	var err error
	switch kind := obj.GetKind(); kind {
	case "Role", "ClusterRole":
		role := &rbacv1.ClusterRole{} // a Role has the same fields
		if err = decodeStrictly("", obj.Object, role); err == nil {
			role.Namespace = someNamespace(kind == "Role")
			err = cmp.Or(checkRules(role.Rules), rbac.ValidateRole(role))
		}
	case "RoleBinding", "ClusterRoleBinding":
		binding := &rbacv1.ClusterRoleBinding{} // a RoleBinding has the same fields
		if err = decodeStrictly("", obj.Object, binding); err == nil {
			binding.Namespace = someNamespace(kind == "RoleBinding")
			err = cmp.Or(CheckNames("", binding), rbac.ValidateBinding(binding))
		}
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

// someNamespace returns a placeholder for a namespaced object, because its namespace is not known before the install,
// and rbac.ClusterScope for any other object.
func someNamespace(namespaced bool) string {
	if namespaced {
		return "namespace"
	}
	return rbac.ClusterScope
}

func checkCRD(obj *unstructured.Unstructured) error {
	if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
		return nil
	}
	defined := DefinedKind(obj)
	if err := cmp.Or(message.CheckWord("spec.group", defined.Group), message.CheckWord("spec.names.kind", defined.Kind)); err != nil {
		return fmt.Errorf("CustomResourceDefinition %q: %w", obj.GetName(), err)
	}
	field, _, err := unstructured.NestedFieldNoCopy(obj.Object, "spec", "versions")
	if err != nil {
		return fmt.Errorf("CustomResourceDefinition %q: %w", obj.GetName(), err)
	}
	if versions, _ := field.([]any); len(versions) > MaxCRDVersions {
		return fmt.Errorf("CustomResourceDefinition %q has %d versions; at most %d are allowed", obj.GetName(), len(versions), MaxCRDVersions)
	}
	return nil
}
