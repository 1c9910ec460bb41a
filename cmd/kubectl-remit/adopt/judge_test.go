package adopt

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/proofs"
)

// born is the creation time of the namespace "own".
var born = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// given is a world with one operator in the namespace "own", whose OperatorGroup also targets the namespace "target".
type given struct {
	*world
	t *testing.T
}

func newGiven(t *testing.T) *given {
	t.Helper()
	g := &given{t: t, world: &world{
		keys: proofs.Keys(), all: map[string]*corev1.Namespace{"own": {ObjectMeta: metav1.ObjectMeta{Name: "own", CreationTimestamp: metav1.NewTime(born)}}},
		groups:        map[string][]operatorsv1.OperatorGroup{"own": {{ObjectMeta: metaOf("own", "group"), Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct"}}}},
		targets:       map[string][]string{"own": {"own", "target"}},
		subscriptions: map[string][]operatorsv1alpha1.Subscription{"own": {subscription("op", "op.v1")}},
		csvs:          map[string][]operatorsv1alpha1.ClusterServiceVersion{"own": {version("own", "op.v1")}, "other": {version("other", "op.v1")}},
		plans:         map[string][]operatorsv1alpha1.InstallPlan{},
	}}
	g.objects = []client.Object{g.deployment()}
	return g
}

// metaOf returns the metadata of an object that was created after the namespace "own".
func metaOf(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), CreationTimestamp: metav1.NewTime(born.Add(time.Hour))}
}

func subscription(pkg, installed string) operatorsv1alpha1.Subscription {
	out := operatorsv1alpha1.Subscription{ObjectMeta: metaOf("own", pkg), Spec: &operatorsv1alpha1.SubscriptionSpec{Package: pkg}}
	out.Status.InstalledCSV = installed
	return out
}

func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}

// version returns a ClusterServiceVersion whose operator may get ConfigMaps in each target, and Nodes, and serves a webhook.
func version(namespace, name string) operatorsv1alpha1.ClusterServiceVersion {
	out := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metaOf(namespace, name)}
	out.Status.Phase = operatorsv1alpha1.CSVPhaseSucceeded
	out.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: "things.example.com", Version: "v1", Kind: "Thing"}}
	strategy := &out.Spec.InstallStrategy.StrategySpec
	strategy.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op", Rules: []rbacv1.PolicyRule{rule("configmaps", "get")}}}
	strategy.ClusterPermissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op", Rules: []rbacv1.PolicyRule{rule("nodes", "get")}}}
	spec := operatorsv1alpha1.StrategyDeploymentSpec{Name: "op"}
	spec.Spec.Template.Spec.ServiceAccountName = "op"
	strategy.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{spec}
	out.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{GenerateName: "hook", DeploymentName: "op", Type: operatorsv1alpha1.ValidatingAdmissionWebhook}}
	return out
}

func (g *given) csv() *operatorsv1alpha1.ClusterServiceVersion { return &g.csvs["own"][0] }

func (g *given) owner() ownerutil.Owner {
	return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "own"}, CSV: "op.v1", UID: g.csv().UID, Since: born, Proofs: g.keys}
}

func reference(csv *operatorsv1alpha1.ClusterServiceVersion) metav1.OwnerReference {
	return ownerutil.Reference("operators.coreos.com/v1alpha1", "ClusterServiceVersion", csv.Name, csv.UID)
}

// owned returns the metadata of an object in the namespace "own" that the ClusterServiceVersion owns.
func (g *given) owned(name string) metav1.ObjectMeta {
	m := metaOf("own", name)
	m.OwnerReferences = []metav1.OwnerReference{reference(g.csv())}
	return m
}

// labeled returns the metadata of an object with OLM's owner labels.
func labeled(namespace, name string) metav1.ObjectMeta {
	m := metaOf(namespace, name)
	m.Labels = map[string]string{names.LabelOwner: "op.v1", names.LabelOwnerNamespace: "own", names.LabelOwnerKind: "ClusterServiceVersion"}
	return m
}

func (g *given) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: g.owned("op")}
}

func of(kind string, m metav1.ObjectMeta) *metav1.PartialObjectMetadata {
	apiVersion := map[string]string{"CustomResourceDefinition": "apiextensions.k8s.io/v1"}[kind]
	if apiVersion == "" {
		apiVersion = "v1"
	}
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: m}
}

func rbacKind(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func role(m metav1.ObjectMeta, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{TypeMeta: rbacKind("Role"), ObjectMeta: m, Rules: rules}
}

func clusterRole(rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{TypeMeta: rbacKind("ClusterRole"), ObjectMeta: labeled("", "role"), Rules: rules}
}

func operator() rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "own", Name: "op"}
}

// bound returns a binding to the role or ClusterRole "role" with the metadata of a binding.
func bound(m metav1.ObjectMeta, kind string, subjects ...rbacv1.Subject) client.Object {
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "role"}
	if m.Namespace == "" {
		return &rbacv1.ClusterRoleBinding{TypeMeta: rbacKind("ClusterRoleBinding"), ObjectMeta: m, RoleRef: ref, Subjects: subjects}
	}
	return &rbacv1.RoleBinding{TypeMeta: rbacKind("RoleBinding"), ObjectMeta: m, RoleRef: ref, Subjects: subjects}
}

// with returns metadata after edits.
func with(m metav1.ObjectMeta, edits ...func(*metav1.ObjectMeta)) metav1.ObjectMeta {
	m.Labels = maps.Clone(m.Labels)
	for _, edit := range edits {
		edit(&m)
	}
	return m
}

func label(key, value string) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) {
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[key] = value
	}
}

func created(at time.Time) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) { m.CreationTimestamp = metav1.NewTime(at) }
}

func deleting(m *metav1.ObjectMeta) { m.DeletionTimestamp = &m.CreationTimestamp }

func ownedBy(refs ...metav1.OwnerReference) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) { m.OwnerReferences = refs }
}

func annotated(kv ...string) func(*metav1.ObjectMeta) {
	return func(m *metav1.ObjectMeta) {
		m.Annotations = map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m.Annotations[kv[i]] = kv[i+1]
		}
	}
}

// verdict is what is decided about an object; the zero value means that it is not listed.
type verdict struct {
	Verdict
	why string
}

// judged judges the namespace, and requires that an object has the verdict, is signed only if the verdict is Adopt, and
// prevents the adoption only if the verdict is Refused.
func (g *given) judged(obj client.Object, want verdict) {
	g.t.Helper()
	p := g.judge("own")
	var got verdict
	for _, o := range p.report.Objects {
		if o.Kind == obj.GetObjectKind().GroupVersionKind().Kind && o.Namespace == obj.GetNamespace() && o.Name == obj.GetName() {
			require.Empty(g.t, got.Verdict, "listed twice")
			got = verdict{o.Verdict, o.Why}
		}
	}
	require.Equal(g.t, want.Verdict, got.Verdict, got.why)
	require.Contains(g.t, got.why, want.why)
	signed := slices.ContainsFunc(p.signs, func(s signing) bool { return s.object == obj })
	require.Equal(g.t, want.Verdict == Adopt, signed)
	require.Equal(g.t, want.Verdict == Refused, len(p.report.Refused) > 0, p.report.Refused)
}

func TestJudgesObjectsInTheNamespace(t *testing.T) {
	g := newGiven(t)
	other := version("own", "second.v1")
	g.csvs["own"] = append(g.csvs["own"], other)
	g.csvs["own"][1].Spec.InstallStrategy.StrategySpec.DeploymentSpecs = nil
	g.subscriptions["own"] = append(g.subscriptions["own"], subscription("second", other.Name))
	csv := g.csv()
	config := ownerutil.Reference("v1", "ConfigMap", "config", "config-uid")
	stranger, renamed, foreign := reference(csv), reference(csv), reference(csv)
	stranger.UID, renamed.Name, foreign.APIVersion = "stranger-uid", "other.v1", "example.com/v1alpha1"
	neighbor := reference(&g.csvs["other"][0])
	account := func(edits ...func(*metav1.ObjectMeta)) client.Object {
		return of("ServiceAccount", with(g.owned("op"), edits...))
	}
	for name, row := range map[string]struct {
		obj  client.Object
		want verdict
	}{
		"that the operator owns":                  {account(), verdict{Adopt, ""}},
		"older than the namespace":                {account(created(born.Add(-time.Hour))), verdict{Adopt, ""}},
		"of a version with the same name":         {account(ownedBy(stranger)), verdict{Refused, "UID stranger-uid, which does not exist"}},
		"of a version in another namespace":       {account(ownedBy(neighbor)), verdict{Refused, "which does not exist"}},
		"with the UID but another name":           {account(ownedBy(renamed)), verdict{Refused, "but the name other.v1"}},
		"of an object of another API":             {account(ownedBy(foreign)), verdict{}},
		"of another kind":                         {account(ownedBy(config)), verdict{}},
		"with a second owner":                     {account(ownedBy(reference(csv), config)), verdict{Refused, "ConfigMap config"}},
		"with a second owner that does not exist": {account(ownedBy(reference(csv), stranger)), verdict{Refused, "which does not exist"}},
		"of two versions":                         {account(ownedBy(reference(csv), reference(&other))), verdict{Refused, "both own it"}},
		"with the label of another version":       {account(label(names.LabelOwner, other.Name)), verdict{Refused, "but its label olm.owner names second.v1"}},
		"with labels but no owner":                {of("ServiceAccount", labeled("own", "op")), verdict{Refused, "no owner reference to it"}},
		"with neither":                            {of("ServiceAccount", metaOf("own", "op")), verdict{}},
		"of another install of Remit":             {account(label(names.LabelLineage, "another")), verdict{Refused, "names another install"}},
		"being deleted":                           {account(deleting), verdict{Refused, "being deleted"}},
		"a ConfigMap, which is not required":      {of("ConfigMap", with(g.owned("op"), deleting)), verdict{Left, "being deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &given{world: g.world, t: t}
			g.objects = []client.Object{g.deployment(), row.obj}
			g.judged(row.obj, row.want)
		})
	}
}

func TestJudgesObjectsOutsideTheNamespace(t *testing.T) {
	g := newGiven(t)
	config, namespace := ownerutil.Reference("v1", "ConfigMap", "config", "config-uid"), ownerutil.NamespaceReference("own", "own-uid")
	service := func(edits ...func(*metav1.ObjectMeta)) client.Object {
		return of("Service", with(labeled("target", "op"), edits...))
	}
	class := func(edits ...func(*metav1.ObjectMeta)) client.Object {
		return of("PriorityClass", with(labeled("", "op"), edits...))
	}
	for name, row := range map[string]struct {
		obj  client.Object
		want verdict
	}{
		"in a target":                           {service(), verdict{Adopt, ""}},
		"in a namespace that is not a target":   {of("ServiceAccount", labeled("other", "op")), verdict{Left, "not a target"}},
		"with the labels of another namespace":  {service(label(names.LabelOwnerNamespace, "other")), verdict{}},
		"with the labels of another kind":       {service(label(names.LabelOwnerKind, "OperatorGroup")), verdict{}},
		"with the labels of an absent version":  {service(label(names.LabelOwner, "op.v0")), verdict{Left, "op.v0, which does not exist"}},
		"with only an owner reference":          {of("Service", with(metaOf("target", "op"), ownedBy(reference(g.csv())))), verdict{}},
		"cluster-scoped":                        {class(), verdict{Adopt, ""}},
		"cluster-scoped, owned by a Namespace":  {class(ownedBy(namespace)), verdict{Adopt, ""}},
		"cluster-scoped, owned by another":      {class(ownedBy(namespace, config)), verdict{Left, "ConfigMap config"}},
		"of an earlier namespace":               {class(created(born.Add(-time.Second))), verdict{Left, "older than the namespace"}},
		"of an earlier namespace, in a target":  {service(created(born.Add(-time.Second))), verdict{Left, "older than the namespace"}},
		"of another install of Remit":           {class(label(names.LabelLineage, "another")), verdict{Left, "names another install"}},
		"a Deployment, which another could set": {of("Deployment", with(labeled("target", "op"), deleting)), verdict{Left, "being deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &given{world: g.world, t: t}
			g.objects = []client.Object{g.deployment(), row.obj}
			g.judged(row.obj, row.want)
		})
	}
}

func TestABindingIsAdoptedOnlyIfTheVersionRequiresIt(t *testing.T) {
	g := newGiven(t)
	user, elsewhere, second := operator(), operator(), operator()
	user.Kind, elsewhere.Namespace, second.Name = rbacv1.UserKind, "other", "second"
	configs, nodes, certificate := rule("configmaps", "get"), rule("nodes", "get"), rule("secrets", "get")
	certificate.ResourceNames = []string{"op-service-cert"}
	aggregated := clusterRole(nodes)
	aggregated.AggregationRule = &rbacv1.AggregationRule{}
	strange, old, shared := clusterRole(nodes), clusterRole(nodes), clusterRole(nodes)
	strange.Labels, old.CreationTimestamp = nil, metav1.NewTime(born.Add(-time.Hour))
	shared.Labels[names.LabelLineage] = "another"
	in, out, cluster := g.owned("binding"), labeled("target", "binding"), labeled("", "binding")
	for name, row := range map[string]struct {
		role, binding client.Object
		want          verdict
	}{
		"in the namespace":                {role(g.owned("role"), configs), bound(in, "Role", operator()), verdict{Adopt, ""}},
		"in a target":                     {role(labeled("target", "role"), configs), bound(out, "Role", operator()), verdict{Adopt, ""}},
		"in the cluster":                  {clusterRole(nodes), bound(cluster, "ClusterRole", operator()), verdict{Adopt, ""}},
		"of a ClusterRole in a target":    {clusterRole(configs), bound(out, "ClusterRole", operator()), verdict{Adopt, ""}},
		"to read its certificate":         {role(g.owned("role"), certificate), bound(in, "Role", operator()), verdict{Adopt, ""}},
		"to read certificates elsewhere":  {role(labeled("target", "role"), certificate), bound(out, "Role", operator()), verdict{Left, "more than"}},
		"to read every Secret":            {role(g.owned("role"), rule("secrets", "get")), bound(in, "Role", operator()), verdict{Left, "more than"}},
		"with more verbs":                 {role(g.owned("role"), rule("configmaps", "get", "list")), bound(in, "Role", operator()), verdict{Left, "more than"}},
		"in the cluster, for a namespace": {clusterRole(configs), bound(cluster, "ClusterRole", operator()), verdict{Left, "more than"}},
		"to an account elsewhere":         {clusterRole(nodes), bound(cluster, "ClusterRole", operator(), elsewhere), verdict{Left, "not a ServiceAccount of the operator"}},
		"to a user of the same name":      {clusterRole(nodes), bound(cluster, "ClusterRole", user), verdict{Left, "not a ServiceAccount of the operator"}},
		"to another account":              {clusterRole(nodes), bound(cluster, "ClusterRole", operator(), second), verdict{Left, "grants ServiceAccount second more"}},
		"of an aggregated ClusterRole":    {aggregated, bound(cluster, "ClusterRole", operator()), verdict{Left, "does not belong to the operator"}},
		"of a ClusterRole of others":      {strange, bound(cluster, "ClusterRole", operator()), verdict{Left, "does not belong to the operator"}},
		"of a Role elsewhere":             {role(labeled("target", "role"), configs), bound(in, "Role", operator()), verdict{Left, "does not belong to the operator"}},
		"of an older ClusterRole":         {old, bound(cluster, "ClusterRole", operator()), verdict{Left, "does not belong to the operator"}},
		"of another install's role":       {shared, bound(cluster, "ClusterRole", operator()), verdict{Left, "does not belong to the operator"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &given{world: g.world, t: t}
			g.objects = []client.Object{row.binding, g.deployment(), row.role}
			g.judged(row.binding, row.want)
		})
	}
}

func TestADefinitionIsAdoptedOnlyIfNoOtherVersionInstalledIt(t *testing.T) {
	const a, b = names.AnnotationInstalledAlongsidePrefix + "a", names.AnnotationInstalledAlongsidePrefix + "b"
	definition := func(name string, edits ...func(*metav1.ObjectMeta)) client.Object {
		return of("CustomResourceDefinition", with(metaOf("", name), edits...))
	}
	const things = "things.example.com"
	for name, row := range map[string]struct {
		obj  client.Object
		want verdict
	}{
		"of this version":             {definition(things, annotated(a, "own/op.v1")), verdict{Adopt, ""}},
		"and of one that was removed": {definition(things, annotated(a, "own/op.v1", b, "gone/op.v1")), verdict{Adopt, ""}},
		"of another version":          {definition(things, annotated(a, "other/op.v1")), verdict{Left, "also installed with ClusterServiceVersion other/op.v1"}},
		"of both":                     {definition(things, annotated(a, "own/op.v1", b, "other/op.v1")), verdict{Left, "also installed with ClusterServiceVersion other/op.v1"}},
		"of no version":               {definition(things), verdict{Left, "no annotation"}},
		"of a removed version":        {definition(things, annotated(a, "gone/op.v1")), verdict{Left, "no annotation"}},
		"with another annotation":     {definition(things, annotated("example.com/a", "own/op.v1")), verdict{Left, "no annotation"}},
		"that the version lacks":      {definition("others.example.com", annotated(a, "own/op.v1")), verdict{}},
		"older than the namespace":    {definition(things, annotated(a, "own/op.v1"), created(born.Add(-time.Hour))), verdict{Left, "older than the namespace"}},
		"with only labels": {of("CustomResourceDefinition", labeled("", things)),
			verdict{Left, "no annotation"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGiven(t)
			g.objects = append(g.objects, row.obj)
			g.judged(row.obj, row.want)
		})
	}
}

func TestJudgesVersionsAndPlans(t *testing.T) {
	g := newGiven(t)
	csv := func() client.Object {
		obj := g.csv()
		obj.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind("ClusterServiceVersion"))
		return obj
	}
	g.judged(csv(), verdict{Adopt, ""})
	g.csv().Status.Phase = operatorsv1alpha1.CSVPhaseInstalling
	g.judged(csv(), verdict{Refused, `its phase is "Installing" instead of Succeeded`})
	g.csv().Status.Phase = operatorsv1alpha1.CSVPhaseSucceeded
	g.csv().DeletionTimestamp = &metav1.Time{Time: born}
	g.judged(csv(), verdict{Refused, "being deleted"})
	g.csv().DeletionTimestamp = nil
	g.subscriptions["own"] = nil
	g.judged(csv(), verdict{Left, "no Subscription installed it"})

	plan := operatorsv1alpha1.InstallPlan{ObjectMeta: metaOf("own", "plan")}
	plan.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind("InstallPlan"))
	for phase, want := range map[operatorsv1alpha1.InstallPlanPhase]Verdict{
		operatorsv1alpha1.InstallPlanPhaseComplete: Left, operatorsv1alpha1.InstallPlanPhaseFailed: Left, operatorsv1alpha1.InstallPlanPhaseRequiresApproval: Left,
		operatorsv1alpha1.InstallPlanPhaseInstalling: Refused, operatorsv1alpha1.InstallPlanPhasePlanning: Refused, "": Refused,
	} {
		plan.Status.Phase = phase
		g.plans["own"] = []operatorsv1alpha1.InstallPlan{plan}
		g.judged(&plan, verdict{want, ""})
	}
}

func TestRefusesNamespaces(t *testing.T) {
	for why, edit := range map[string]func(*given){
		"has 0 OperatorGroups": func(g *given) { g.groups["own"] = nil },
		"has 2 OperatorGroups": func(g *given) { g.groups["own"] = append(g.groups["own"], g.groups["own"][0]) },
		"the target namespaces are unknown": func(g *given) {
			g.untargeted = map[string]error{"own": errors.New("unknown")}
		},
		"for different packages both report": func(g *given) { g.subscriptions["own"] = append(g.subscriptions["own"], subscription("b", "op.v1")) },
		"Deployment own/op of ClusterServiceVersion op.v1 does not exist": func(g *given) {
			g.objects = nil
		},
		"Deployment own/op: its owner reference": func(g *given) {
			d := g.deployment()
			d.OwnerReferences[0].UID = "stranger"
			g.objects = []client.Object{d}
		},
	} {
		t.Run(why, func(t *testing.T) {
			g := newGiven(t)
			require.Empty(t, g.judge("own").report.Refused)
			edit(g)
			p := g.judge("own")
			require.Len(t, p.report.Refused, 1)
			require.Contains(t, p.report.Refused[0], why)
		})
	}
}

// An object that has the proof, but whose fields OLM still manages, is signed again to move the fields.
func TestKnowsWhatIsAdopted(t *testing.T) {
	g := newGiven(t)
	obj := of("ServiceAccount", g.owned("op"))
	proofs.Mark(obj, g.owner())
	g.objects = append(g.objects, obj)
	g.judged(obj, verdict{Adopted, ""})
	fields := &metav1.FieldsV1{}
	fields.SetRawBytes([]byte(`{"f:metadata":{"f:labels":{"f:a":{}}}}`))
	obj.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "olm", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: fields}}
	g.judged(obj, verdict{Adopt, ""})
	obj.ManagedFields = nil
	forged := obj.DeepCopy()
	forged.Annotations[names.AnnotationProof] += "x"
	g.objects = []client.Object{g.deployment(), forged}
	g.judged(forged, verdict{Adopt, ""})
}

// Users of a target namespace can create a Deployment with the name of the operator's.
func TestADeploymentElsewhereDoesNotTakeThePlaceOfTheOperators(t *testing.T) {
	g := newGiven(t)
	strangers := g.deployment()
	strangers.ObjectMeta = labeled("target", "op")
	strangers.Spec.Template.Spec.Containers = []corev1.Container{{Name: "theirs"}}
	for _, order := range [][]client.Object{{g.deployment(), strangers}, {strangers, g.deployment()}} {
		g.objects = order
		p := g.judge("own")
		require.Empty(t, p.report.Refused)
		for _, s := range p.signs {
			if d, ok := s.object.(*appsv1.Deployment); ok {
				require.Equal(t, d.Namespace == "own", s.labels[names.LabelDeploymentSpecHash] != "", d.Namespace)
			}
		}
	}
	g.objects = []client.Object{strangers}
	require.Len(t, g.judge("own").report.Refused, 1, "the operator's Deployment does not exist")
}
