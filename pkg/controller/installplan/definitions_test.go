package installplan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/step/existing"
)

// withoutCRDs limits the account to what the demo needs, except permissions on CustomResourceDefinitions, and adds rules.
func withoutCRDs(more ...rbacv1.PolicyRule) change {
	return with(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: append(more,
		rbacv1.PolicyRule{APIGroups: []string{"", "apps", rbacv1.GroupName, "operators.coreos.com"}, Resources: []string{"*"}, Verbs: []string{"*"}})})
}

// thingIn returns an object of the demo's CustomResourceDefinition.
func thingIn(namespace string) client.Object {
	obj := thing()
	obj.SetNamespace(namespace)
	return obj
}

// otherAccount makes namespace "other" the one of another account.
func otherAccount(w *world) {
	og := operatorGroup("og", "acct")
	og.Namespace = "other"
	w.Put(og, account("other", "acct"))
}

// selects makes the OperatorGroup select namespace "other" as well.
func selects(w *world) {
	og := operatorGroup("og", "acct")
	og.Spec.TargetNamespaces = []string{"ns", "other"}
	w.Put(og)
}

// csvIn returns a ClusterServiceVersion that requires the demo's CustomResourceDefinition.
func csvIn(namespace string, labels map[string]string) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user.v1", UID: types.UID("user-" + namespace), Labels: labels}}
	csv.Spec.CustomResourceDefinitions.Required = []operatorsv1alpha1.CRDDescription{{Name: "things.example.com", Version: "v1", Kind: "Thing"}}
	return csv
}

// deployed returns the Deployment of a ClusterServiceVersion that csvIn returns.
func deployed(namespace string) client.Object {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "operators.coreos.com/v1alpha1", Kind: "ClusterServiceVersion", Name: "user.v1", UID: types.UID("user-" + namespace)}}}}
}

// With a CRD account, a tenant's upgrade must not change the objects of others.
func TestTheCRDAccountChangesOnlyDefinitionsThatNobodyElseUses(t *testing.T) {
	t.Parallel()
	crds := schema.GroupResource{Group: "example.com", Resource: "things"}
	patch := rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, ResourceNames: []string{"things.example.com"}, Verbs: []string{"patch"}}
	update := rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"things"}, Verbs: []string{"update"}}
	multi := strings.Replace(demoCSV, "installModes: [", "installModes: [{type: MultiNamespace, supported: true}, ", 1)
	next := strings.Replace(demoCRD, "{type: object}", "{type: object, properties: {spec: {type: object, default: {}}}}", 1)
	for name, row := range map[string]struct {
		given []change
		// writes is the request that changes the definition, or "".
		writes string
		// denied is part of the message if the plan waits.
		denied string
	}{
		"nobody else":                        {nil, "crds: apply CustomResourceDefinition things.example.com", ""},
		"objects of the account's namespace": {[]change{with(thingIn("ns"))}, "crds: apply CustomResourceDefinition things.example.com", ""},
		"an operator of the account, and a copy of it": {[]change{with(csvIn("ns", nil), csvIn("other", map[string]string{names.LabelCopiedFrom: "ns"}))},
			"crds: apply CustomResourceDefinition things.example.com", ""},
		"objects of another namespace": {[]change{with(thingIn("ns"), thingIn("other"))}, "",
			`changes defaults in version "v1", and objects that are not in namespaces of this account exist`},
		"objects of another account":                         {[]change{otherAccount, with(thingIn("other"))}, "", "objects that are not in namespaces of this account exist"},
		"a version of another account that is not installed": {[]change{otherAccount, with(csvIn("other", nil))}, "crds: apply CustomResourceDefinition things.example.com", ""},
		"an operator of another account":                     {[]change{otherAccount, with(csvIn("other", nil), deployed("other"))}, "", "operators in other namespaces use it"},
		"objects that the account may update, in a namespace that is not selected": {[]change{withoutCRDs(update), with(thingIn("other"))}, "",
			"objects that are not in namespaces of this account exist"},
		"objects of a selected namespace": {[]change{selects, bundled(multi, next, demoConfigMap), with(thingIn("other"))}, "",
			"objects that are not in namespaces of this account exist"},
		"objects of a selected namespace that the account may update": {[]change{selects, bundled(multi, next, demoConfigMap), withoutCRDs(update), with(thingIn("other"))},
			"crds: apply CustomResourceDefinition things.example.com", ""},
		"an operator of another namespace":         {[]change{with(csvIn("other", nil), deployed("other"))}, "", "operators in other namespaces use it"},
		"unreadable objects":                       {[]change{refusing("crds: list ThingList", apierrors.NewForbidden(crds, "", errors.New("no")))}, "", "is not allowed to list its objects"},
		"others, and an account that may patch it": {[]change{with(thingIn("other")), withoutCRDs(patch)}, "acct: apply CustomResourceDefinition things.example.com", ""},
		"others, and no change to the spec":        {[]change{bundled(demoCSV, demoCRD, demoConfigMap), with(thingIn("other"))}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append([]change{crdAccount, with(account("remit", "crds")), withoutCRDs(),
				bundled(demoCSV, next, demoConfigMap), with(createdFor("demo", existingCRD(t, func(*apiextensionsv1.CustomResourceDefinition) {}))), with(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})}, append(row.given, whichServes("things.example.com"))...)...)
			out := w.reconcile()
			require.Empty(t, out.failed)
			changed := slices.DeleteFunc(slices.Clone(out.writes), func(r string) bool { return !strings.Contains(r, ": apply CustomResourceDefinition") })
			if row.writes == "" {
				require.Empty(t, changed)
			} else {
				require.Equal(t, []string{row.writes}, changed)
				require.Contains(t, strings.Join(out.writes, "\n"), "CRDValidation on InstallPlan ns/install-#: the new version of CustomResourceDefinition "+
					"things.example.com changes existing objects: it changes defaults in version \"v1\"")
			}
			w.Get(w.plan)
			missing := w.plan.Status.GetCondition(names.ConditionPermissionsMissing)
			if row.denied == "" {
				require.Equal(t, operatorsv1alpha1.InstallPlanPhaseComplete, w.plan.Status.Phase, w.plan.Status.Message)
				return
			}
			require.Equal(t, corev1.ConditionTrue, missing.Status)
			require.Contains(t, missing.Message, `cannot patch resource "customresourcedefinitions" in API group "apiextensions.k8s.io" at the cluster scope`)
			require.Contains(t, missing.Message, row.denied)
			require.Contains(t, missing.Message, "grant ServiceAccount ns/acct permission to patch it")
			require.NotContains(t, missing.Message, "other/")
			require.NotZero(t, out.after, "no watch reports that the other use has ended")
			require.Empty(t, slices.DeleteFunc(out.writes, func(r string) bool { return !strings.HasPrefix(r, "acct: ") }))
		})
	}
}

func TestInANamespaceWithManyDeploymentsEveryVersionCountsAsInstalled(t *testing.T) {
	t.Parallel()
	list := make([]appsv1.Deployment, maxDeployments+1)
	list[0].OwnerReferences = []metav1.OwnerReference{{UID: "a"}, {UID: "b"}}
	require.Equal(t, map[types.UID]bool{"a": true, "b": true}, ownersOf(list[:maxDeployments]))
	require.Nil(t, ownersOf(list))
}

// pages is a reader of objects of namespace "ns". There are always more of them, or no response until the time is over.
type pages struct {
	client.Reader
	read int
	slow bool
}

func (p *pages) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if p.slow {
		<-ctx.Done()
		return ctx.Err()
	}
	if p.read++; p.read*usersPage > 2*existing.MaxObjects {
		return errors.New("too many requests")
	}
	items := make([]metav1.PartialObjectMetadata, usersPage)
	for i := range items {
		items[i].Namespace = "ns"
	}
	list.(*metav1.PartialObjectMetadataList).Items = items
	list.SetContinue("more")
	return nil
}

func (*pages) RESTMapper() meta.RESTMapper {
	out := meta.NewDefaultRESTMapper(nil)
	out.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}, meta.RESTScopeNamespace)
	return out
}

// Users of the kind decide how many objects there are, and how long it takes to read them.
func TestWhatIsNotReadMayBeUsedByOthers(t *testing.T) {
	t.Parallel()
	u := users{run: &run{plan: &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}}}
	crd := existingCRD(t, func(*apiextensionsv1.CustomResourceDefinition) {})
	why, err := u.othersObjects(t.Context(), crd, &pages{})
	require.NoError(t, err)
	require.Equal(t, "it has more than 10000 objects", why)

	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, existing.ErrSlow)
	defer cancel()
	why, err = u.othersObjects(ctx, crd, &pages{slow: true})
	require.NoError(t, err)
	require.Equal(t, "its objects could not be read within 30s", why)

	crd.Spec.Names.Plural = "decoys" // requests for the kind concern the objects of another definition
	why, err = u.othersObjects(t.Context(), crd, &pages{})
	require.NoError(t, err)
	require.Equal(t, "its objects cannot be read, because its kind is not served, or another definition had it", why)

	crd.Spec.Versions[0].Served = false
	why, err = u.othersObjects(t.Context(), crd, nil)
	require.NoError(t, err)
	require.Equal(t, "its objects cannot be read, because it serves no version", why)
}
