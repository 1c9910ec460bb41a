package author

import (
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// program returns a client that acts as one of Remit's programs, and sends only dry runs. Its group has all permissions, so that
// only the policies deny its requests.
func (s *extensionSite) program(name string) client.Client {
	s.Helper()
	return client.NewDryRunClient(s.cluster.As(s.T, scoped.Username(names.DefaultNamespace, name), "system:masters"))
}

// denied requires that a policy denied a request with a message.
func (s *extensionSite) denied(err error, says, what string) {
	s.Helper()
	require.ErrorContains(s, err, "ValidatingAdmissionPolicy", what)
	require.ErrorContains(s, err, says, what)
}

func merge(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }

func clusterExtension(name string) metav1.OwnerReference {
	return ownerutil.Reference("olm.operatorframework.io/v1", "ClusterExtension", name, "uid-"+types.UID(name))
}

// reportOf returns the ConfigMap with the report of a ClusterExtension.
func (s *extensionSite) reportOf(extension string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "remit-report-clusterextension-" + extension,
		OwnerReferences: []metav1.OwnerReference{clusterExtension(extension)}}, Data: map[string]string{"report.yaml": "x"}}
}

func TestThePolicyOfReportsChecksNewConfigMaps(t *testing.T) {
	s := newExtensionSite(t, manifests.ProfileCompat)
	self := s.program(names.ServiceAccountExtension)
	const owner, keys, data = "only ConfigMaps with the report or the content of a ClusterExtension", "only the keys of a report", "only the data and the proof"
	long, dotted := strings.Repeat("x", 210), strings.Repeat("x", 199)+".x"
	for what, row := range map[string]struct {
		edit func(*corev1.ConfigMap)
		says string
	}{
		"a report": {func(*corev1.ConfigMap) {}, ""},
		"a proof":  {func(c *corev1.ConfigMap) { c.Annotations = map[string]string{names.AnnotationProof: "x"} }, ""},
		"content": {func(c *corev1.ConfigMap) {
			c.Name, c.Data = "remit-content-clusterextension-x", map[string]string{"bundle.json": "x", "content": "x"}
		}, ""},
		"a long name": {func(c *corev1.ConfigMap) {
			c.Name, c.OwnerReferences[0].Name = "remit-report-clusterextension-"+long[:200]+"-hash", long
		}, ""},
		"a long name with a dot at the end of its beginning": {func(c *corev1.ConfigMap) {
			c.OwnerReferences[0].Name = dotted
			c.Name = clusterextension.ReportName(dotted)
		}, ""},
		"the CA": {func(c *corev1.ConfigMap) {
			c.Name, c.OwnerReferences, c.Data = names.ConfigMapCatalogContentCA, nil, map[string]string{"ca.crt": "x"}
		}, ""},
		"no owner":                 {func(c *corev1.ConfigMap) { c.OwnerReferences = nil }, owner},
		"another owner":            {func(c *corev1.ConfigMap) { c.OwnerReferences[0].Name = "y" }, owner},
		"another kind":             {func(c *corev1.ConfigMap) { c.OwnerReferences[0].Kind = "ClusterCatalog" }, owner},
		"another API":              {func(c *corev1.ConfigMap) { c.OwnerReferences[0].APIVersion = "v1" }, owner},
		"two owners":               {func(c *corev1.ConfigMap) { c.OwnerReferences = append(c.OwnerReferences, clusterExtension("y")) }, owner},
		"another ConfigMap":        {func(c *corev1.ConfigMap) { c.Name = "kube-root-ca.crt" }, owner},
		"a short name with a hash": {func(c *corev1.ConfigMap) { c.Name += "-hash" }, owner},
		"a shorter long name": {func(c *corev1.ConfigMap) {
			c.Name, c.OwnerReferences[0].Name = "remit-report-clusterextension-"+long[:199]+"-hash", long
		}, owner},
		"another long name":         {func(c *corev1.ConfigMap) { c.OwnerReferences[0].Name = long }, owner},
		"a key of the content":      {func(c *corev1.ConfigMap) { c.Data["bundle.json"] = "x" }, keys},
		"a key of the CA":           {func(c *corev1.ConfigMap) { c.Data["ca.crt"] = "x" }, keys},
		"a report's key in the CA":  {func(c *corev1.ConfigMap) { c.Name = names.ConfigMapCatalogContentCA }, keys},
		"binary data":               {func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"report.yaml.gz": {1}} }, data},
		"immutable":                 {func(c *corev1.ConfigMap) { c.Immutable = ptr.To(true) }, data},
		"a finalizer":               {func(c *corev1.ConfigMap) { c.Finalizers = []string{"a.b/c"} }, data},
		"a label":                   {func(c *corev1.ConfigMap) { c.Labels = map[string]string{"a": "b"} }, data},
		"an annotation":             {func(c *corev1.ConfigMap) { c.Annotations = map[string]string{"a": "b"} }, data},
		"a report's key in content": {func(c *corev1.ConfigMap) { c.Name = "remit-content-clusterextension-x" }, keys},
	} {
		config := s.reportOf("x")
		row.edit(config)
		err := self.Create(t.Context(), config)
		if row.says == "" {
			require.NoError(t, err, what)
			continue
		}
		s.denied(err, row.says, what)
	}
}

// A ConfigMap that another user created may not become a report, and a report may not become anything else.
func TestThePolicyOfReportsChecksExistingConfigMaps(t *testing.T) {
	s := newExtensionSite(t, manifests.ProfileCompat)
	self := s.program(names.ServiceAccountExtension)
	owned := func(extension string) *corev1.ConfigMap {
		owner := s.extension(s.name+"-"+extension, installer)
		s.create(owner) // otherwise, the garbage collector would delete what it owns
		config := s.reportOf(owner.GetName())
		config.OwnerReferences[0].UID = owner.GetUID()
		return config
	}
	report, unowned, others, foreign := owned("a"), owned("b"), owned("c"), owned("d")
	report.Annotations, report.Labels, report.Finalizers = map[string]string{"a": "b"}, map[string]string{"a": "b"}, []string{"a.b/c"}
	owner, theirs := unowned.OwnerReferences, others.OwnerReferences
	unowned.OwnerReferences, others.OwnerReferences = nil, owned("y").OwnerReferences
	foreign.Data["theirs"] = "x"
	for _, obj := range []*corev1.ConfigMap{report, unowned, others, foreign} {
		s.create(obj)
	}
	t.Cleanup(func() { _ = s.admin.Patch(t.Context(), report, merge(`{"metadata":{"finalizers":null}}`)) })
	change := func(obj *corev1.ConfigMap, edits ...func(*corev1.ConfigMap)) error {
		next := obj.DeepCopy()
		next.Data = map[string]string{"report.yaml": "y"}
		for _, edit := range edits {
			edit(next)
		}
		return self.Update(t.Context(), next)
	}
	require.NoError(t, change(report, func(c *corev1.ConfigMap) { c.Annotations[names.AnnotationProof] = "x" }))
	const notOurs, keys = "only ConfigMaps with the report or the content of a ClusterExtension", "only the keys of a report"
	s.denied(change(unowned), notOurs, "without an owner")
	s.denied(change(unowned, func(c *corev1.ConfigMap) { c.OwnerReferences = owner }), notOurs, "that gets an owner")
	s.denied(change(others, func(c *corev1.ConfigMap) { c.OwnerReferences = theirs }), notOurs, "that gets another owner")
	s.denied(change(report, func(c *corev1.ConfigMap) { c.OwnerReferences = nil }), notOurs, "that loses its owner")
	s.denied(change(report, func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "later" }), "may not assign a ConfigMap", "of a ClusterExtension that was created again")
	s.denied(change(foreign), keys, "with another user's key")
	for what, edit := range map[string]func(*corev1.ConfigMap){
		"binary data":          func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"x": {1}} },
		"immutable":            func(c *corev1.ConfigMap) { c.Immutable = ptr.To(true) },
		"no finalizer":         func(c *corev1.ConfigMap) { c.Finalizers = nil },
		"another label":        func(c *corev1.ConfigMap) { c.Labels["a"] = "c" },
		"no label":             func(c *corev1.ConfigMap) { c.Labels = nil },
		"a changed annotation": func(c *corev1.ConfigMap) { c.Annotations["a"] = "c" },
		"another annotation":   func(c *corev1.ConfigMap) { c.Annotations["c"] = "d" },
		"no annotation":        func(c *corev1.ConfigMap) { c.Annotations = nil },
	} {
		s.denied(change(report, edit), "only the data and the proof", what)
	}
}

func TestThePolicyOfLabelsAllowsOnlyTheName(t *testing.T) {
	s := newExtensionSite(t, manifests.ProfileCompat)
	self := s.program(names.ServiceAccountExtension)
	namespace := &corev1.Namespace{}
	require.NoError(t, s.admin.Get(t.Context(), client.ObjectKey{Name: s.namespace}, namespace))
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"a": "b"},
		OwnerReferences: []metav1.OwnerReference{ownerutil.NamespaceReference(s.namespace, namespace.UID)}}}
	catalog.Spec.Source = olmv1.ClusterCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: "example.com/c:v1"}}
	s.create(catalog)
	change := func(text string) error { return self.Patch(t.Context(), catalog.DeepCopy(), merge(text)) }
	require.NoError(t, change(`{"metadata":{"labels":{"olm.operatorframework.io/metadata.name":"`+s.name+`"}}}`))
	named := func(rest string) string {
		return `{"metadata":{"labels":{"olm.operatorframework.io/metadata.name":"` + s.name + `"}` + rest
	}
	for what, text := range map[string]string{
		"another owner":      named(`,"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"x"}]}}`),
		"no owner":           named(`,"ownerReferences":null}}`),
		"a finalizer":        named(`,"finalizers":["a.b/c"]}}`),
		"another annotation": named(`,"annotations":{"c":"d"}}}`),
		"the spec":           named(`},"spec":{"priority":7}}`),
		"another name":       `{"metadata":{"labels":{"olm.operatorframework.io/metadata.name":"x"}}}`,
		"another label":      `{"metadata":{"labels":{"olm.operatorframework.io/metadata.name":"` + s.name + `","team":"b"}}}`,
		"a removed label":    `{"metadata":{"labels":{"olm.operatorframework.io/metadata.name":"` + s.name + `","team":null}}}`,
	} {
		s.denied(change(text), "may set only the label", what)
	}
}

// Whoever may change the rules of such a role could change what the users who applied a report have agreed to.
func TestTheRulesOfGrantsForExtensionsCannotBeChanged(t *testing.T) {
	s := newExtensionSite(t, manifests.ProfileCompat)
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}
	for _, kind := range []string{"grant", "enrollment", "author"} {
		name := "remit-extension-" + kind + "-" + s.name
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Rules: rules}
		inCluster := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		for _, obj := range []client.Object{role, inCluster} {
			s.create(obj)
			require.NoError(t, s.admin.Patch(t.Context(), obj, merge(`{"metadata":{"labels":{"a":"b"}}}`)))
			for _, text := range []string{`{"rules":null}`, `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`} {
				s.denied(s.admin.Patch(t.Context(), obj, merge(text)), "cannot be changed", name)
			}
		}
	}
	other := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "remit-extension-x"}, Rules: rules}
	s.create(other)
	require.NoError(t, s.admin.Patch(t.Context(), other, merge(`{"rules":null}`)))
}

// The garbage collector deletes an owned copy with its owner, and OLM sets no owner, so Remit neither sets one nor deletes a
// ClusterServiceVersion that has one.
func TestThePolicyOfCopiesRefusesOwners(t *testing.T) {
	s := newExtensionSite(t, manifests.ProfileBounded)
	self := s.program(names.ServiceAccountOLM)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "x"}}
	s.create(owner) // otherwise, the garbage collector would delete what it owns
	owners := []metav1.OwnerReference{ownerutil.Reference("v1", "ConfigMap", owner.Name, owner.UID)}
	version := func(name string, by ...metav1.OwnerReference) *operatorsv1alpha1.ClusterServiceVersion {
		out := (&site{namespace: s.namespace}).csv(name)
		out.Labels, out.OwnerReferences = map[string]string{names.LabelCopiedFrom: "elsewhere"}, by
		return out
	}
	const denied = "remit-olm may not set owners or finalizers of a copy, or delete one that has an owner"
	require.NoError(t, self.Create(t.Context(), version("copied.v1")))
	s.denied(self.Create(t.Context(), version("copied.v1", owners...)), denied, "a new copy")
	final := version("copied.v1")
	final.Finalizers = []string{names.FinalizerCSV}
	s.denied(self.Create(t.Context(), final), denied, "a new copy with a finalizer")

	copied, owned := version("copied.v1"), version("owned.v1", owners...)
	s.create(copied)
	s.create(owned)
	require.NoError(t, self.Delete(t.Context(), copied.DeepCopy()))
	s.denied(self.Delete(t.Context(), owned.DeepCopy()), denied, "an owned copy")
	require.NoError(t, self.Patch(t.Context(), owned.DeepCopy(), merge(`{"spec":{"displayName":"x"}}`)))
	s.denied(self.Patch(t.Context(), owned.DeepCopy(), merge(`{"metadata":{"ownerReferences":null}}`)), denied, "an owned copy that loses its owner")
	s.denied(self.Patch(t.Context(), copied.DeepCopy(), merge(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"u"}]}}`)), denied, "a copy that gets an owner")
	s.denied(self.Patch(t.Context(), copied.DeepCopy(), merge(`{"metadata":{"finalizers":["a.b/c"]}}`)), denied, "a copy that gets a finalizer")
}
