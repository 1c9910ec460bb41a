package provided

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// filter evaluates RBAC like preflight.NamespaceFilter, which this package cannot import.
type filter struct{ rbac.Listers }

func (f filter) Gettable(_ context.Context, account scoped.Account, namespaces []string) ([]string, error) {
	return f.Listers.Gettable(rbac.SubjectOf(account.Identity()), namespaces)
}

// scene is a cluster with two OperatorGroups, in the namespaces "mine" and "theirs". The ClusterServiceVersions in both
// namespaces provide the same API to the namespace "shared".
type scene struct {
	*recorded.Server
	mine, theirs *operatorsv1alpha1.ClusterServiceVersion
	owner        ownerutil.Owner
	targets      []string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{targets: []string{"shared"}, owner: ownerIn("mine"), mine: csvIn("mine", "things.example.com"), theirs: csvIn("theirs", "things.example.com")}
	s.Server = recorded.New(t, Index, s.mine, s.theirs, groupIn("mine", "shared"), groupIn("theirs", "other", "shared"),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "acct"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "theirs", Name: "acct"}},
		deploymentIn("theirs", "shared", 0), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}},
	)
	s.grant("shared", "update")
	return s
}

func csvIn(namespace, crd string) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "op.v1", UID: types.UID(namespace)}}
	csv.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: crd, Version: "v1", Kind: "Thing"}}
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{Name: "op"}}
	return csv
}

func groupIn(namespace string, targets ...string) *operatorsv1.OperatorGroup {
	return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "og"},
		Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct", TargetNamespaces: targets}}
}

// deploymentIn returns a Deployment of this age that Remit wrote for the ClusterServiceVersion of the namespace.
func deploymentIn(namespace, targets string, age time.Duration) *appsv1.Deployment {
	return deploymentOf(types.UID(namespace), namespace, targets, age)
}

func deploymentOf(csv types.UID, namespace, targets string, age time.Duration) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "op", CreationTimestamp: metav1.NewTime(time.Now().Add(-age))}}
	d.Spec.Template.Annotations = map[string]string{names.AnnotationTargetNamespaces: targets}
	owner := ownerIn(namespace)
	owner.UID = csv
	proofs.Mark(d, owner)
	d.OwnerReferences = []metav1.OwnerReference{owner.Reference()}
	return d
}

func ownerIn(namespace string) ownerutil.Owner {
	return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: namespace}, CSV: "op.v1", Proofs: proofs.Keys()}
}

// define stores the CustomResourceDefinition of the API, which the operator of a namespace has installed.
func (s *scene) define(namespace string) {
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", CreationTimestamp: metav1.Now()}}
	proofs.Mark(d, ownerIn(namespace))
	s.Put(d)
}

// grant sets the permissions of the other account on the API: in a namespace or, for "", cluster-wide.
func (s *scene) grant(namespace string, verbs ...string) {
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "theirs", Name: "acct"}}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"things"}, Verbs: verbs}}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}
	s.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Rules: rules})
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "theirs"}
	if namespace == "" {
		s.Put(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
		return
	}
	s.Put(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
}

func (s *scene) conflict(t *testing.T) bool {
	t.Helper()
	c := Conflicts{Reader: s.Cached("self"), RBAC: s.RBAC(), Proofs: proofs.Keys(),
		Groups: scoped.Default{}.Lookup(s.Cached("self")), Filter: filter{s.RBAC()}}
	namespace, err := c.Rival(t.Context(), s.mine, s.owner, s.targets)
	require.NoError(t, err)
	require.Contains(t, []string{"", "theirs"}, namespace)
	return namespace != ""
}

func (s *scene) editTheirs(edit func(d *appsv1.Deployment)) {
	d := deploymentIn("theirs", "shared", 0)
	edit(d)
	s.Put(d)
}

func hasSucceeded(csv *operatorsv1alpha1.ClusterServiceVersion) {
	csv.Status.Conditions = []operatorsv1alpha1.ClusterServiceVersionCondition{{Phase: operatorsv1alpha1.CSVPhaseSucceeded}}
}

func TestTheFirstOperatorKeepsItsAPIs(t *testing.T) {
	for _, row := range []struct {
		name  string
		given func(s *scene)
		want  bool
	}{
		{"another group already provides the API", func(*scene) {}, true},
		{"to all namespaces", func(s *scene) {
			s.Put(groupIn("theirs"), deploymentIn("theirs", "", 0))
		}, true},
		{"both provide it to all namespaces", func(s *scene) {
			s.targets = []string{""}
			s.Put(groupIn("theirs"), deploymentIn("theirs", "", 0))
			s.grant("", "*")
		}, true},
		{"both provide it to all namespaces, but the other account has permissions in only one", func(s *scene) {
			s.targets = []string{""}
			s.Put(groupIn("theirs"), deploymentIn("theirs", "", 0))
		}, false},
		{"by an APIService", func(s *scene) {
			for _, csv := range []*operatorsv1alpha1.ClusterServiceVersion{s.mine, s.theirs} {
				csv.Spec.CustomResourceDefinitions.Owned = nil
				csv.Spec.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{{Name: "things", Group: "example.com", Version: "v1", Kind: "Thing"}}
				s.Put(csv)
			}
		}, true},
		{"another version", func(s *scene) {
			s.theirs.Spec.CustomResourceDefinitions.Owned[0].Version = "v2"
			s.Put(s.theirs)
		}, false},
		{"no shared target", func(s *scene) { s.targets = []string{"mine"} }, false},
		{"the other group no longer targets the namespace", func(s *scene) { s.Put(groupIn("theirs", "other")) }, false},
		{"the other group has no account", func(s *scene) {
			s.Delete(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "theirs", Name: "acct"}})
		}, false},
		{"the other namespace has two groups", func(s *scene) {
			second := groupIn("theirs", "shared")
			second.Name = "second"
			s.Put(second)
		}, false},
		{"the other CSV is a copy", func(s *scene) {
			s.theirs.Labels = map[string]string{names.LabelCopiedFrom: "theirs"}
			s.Put(s.theirs)
		}, false},

		// Facts that a tenant can forge are ignored.
		{"the other account has no permissions in the shared namespace", func(s *scene) { s.grant("other", "update"); s.grant("shared", "get") }, false},
		{"the other account may only read the API", func(s *scene) { s.grant("shared", "get", "list", "watch") }, false},
		{"a CSV without Deployments", func(s *scene) { s.Delete(deploymentIn("theirs", "shared", 0)) }, false},
		{"a Deployment for other targets", func(s *scene) { s.Put(deploymentIn("theirs", "other", 0)) }, false},
		{"a Deployment without a proof", func(s *scene) {
			s.editTheirs(func(d *appsv1.Deployment) { delete(d.Annotations, names.AnnotationProof) })
		}, false},
		{"a Deployment of another CSV", func(s *scene) {
			s.editTheirs(func(d *appsv1.Deployment) { d.OwnerReferences = nil })
		}, false},
		{"the annotation of another group", func(s *scene) {
			s.Delete(deploymentIn("theirs", "shared", 0))
			og := groupIn("theirs", "shared")
			og.Annotations = map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotationKey: "Thing.v1.example.com"}
			s.Put(og)
		}, false},

		// A running operator keeps its APIs.
		{"mine has succeeded, regardless of the other's age", func(s *scene) {
			hasSucceeded(s.mine)
			s.Put(s.mine, deploymentIn("mine", "shared", time.Hour), deploymentIn("theirs", "shared", 2*time.Hour))
		}, false},
		{"mine has succeeded for other targets", func(s *scene) {
			hasSucceeded(s.mine)
			s.Put(s.mine, deploymentIn("mine", "elsewhere", time.Hour))
		}, true},
		{"mine has succeeded for all namespaces", func(s *scene) {
			hasSucceeded(s.mine)
			s.Put(s.mine, deploymentIn("mine", "", time.Hour))
		}, false},
		{"a version that mine replaces has succeeded", func(s *scene) {
			older := csvIn("mine", "things.example.com")
			older.Name, older.UID = "op.v0", "older"
			hasSucceeded(older)
			s.Put(older, deploymentOf("older", "mine", "shared", 0))
		}, false},
		{"a version that mine replaces provides another API", func(s *scene) {
			older := csvIn("mine", "widgets.example.com")
			older.Spec.CustomResourceDefinitions.Owned[0].Kind = "Widget"
			older.Name, older.UID = "op.v0", "older"
			hasSucceeded(older)
			s.Put(older, deploymentOf("older", "mine", "shared", 0))
		}, true},
		{"a version that mine replaces provides another version of the API", func(s *scene) {
			older := csvIn("mine", "things.example.com")
			older.Spec.CustomResourceDefinitions.Owned[0].Version = "v1alpha1"
			older.Name, older.UID = "op.v0", "older"
			hasSucceeded(older)
			s.Put(older, deploymentOf("older", "mine", "shared", 0))
		}, false},
		{"a version that mine replaces provides another version of the API to another namespace", func(s *scene) {
			older := csvIn("mine", "things.example.com")
			older.Spec.CustomResourceDefinitions.Owned[0].Version = "v1alpha1"
			older.Name, older.UID = "op.v0", "older"
			hasSucceeded(older)
			s.Put(older, deploymentOf("older", "mine", "elsewhere", 0))
		}, true},
		{"installed at the same time, mine is older", func(s *scene) { s.Put(deploymentIn("mine", "shared", time.Hour)) }, false},
		{"installed at the same time, mine is younger", func(s *scene) {
			s.Put(deploymentIn("mine", "shared", 0), deploymentIn("theirs", "shared", time.Hour))
		}, true},
		{"installed in the same second: the names determine the order", func(s *scene) {
			d, other := deploymentIn("mine", "shared", 0), deploymentIn("theirs", "shared", 0)
			other.CreationTimestamp = d.CreationTimestamp
			s.Put(d, other)
		}, false},

		// The definition of the API belongs to a lineage.
		{"the definition is mine", func(s *scene) { s.define("mine") }, false},
		{"the definition is mine, and the other is older", func(s *scene) {
			s.define("mine")
			s.Put(deploymentIn("mine", "shared", 0), deploymentIn("theirs", "shared", time.Hour))
		}, false},
		{"the definition has only my label", func(s *scene) {
			s.define("mine")
			d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"}}
			s.Get(d)
			delete(d.Annotations, names.AnnotationProof)
			s.Put(d)
		}, true},
		{"the definition is older than my namespace", func(s *scene) {
			s.define("mine")
			s.owner.Since = time.Now().Add(time.Hour)
		}, true},
		{"the definition belongs to a third lineage", func(s *scene) { s.define("third") }, true},
		{"the definition is theirs, but mine is older", func(s *scene) {
			s.define("theirs")
			s.Put(deploymentIn("mine", "shared", time.Hour))
		}, true},
		{"the definition is theirs, but mine has succeeded", func(s *scene) {
			s.define("theirs")
			hasSucceeded(s.mine)
			s.Put(s.mine, deploymentIn("mine", "shared", 0))
		}, false},
		{"the definition is older than their namespace", func(s *scene) {
			s.define("theirs")
			s.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs", CreationTimestamp: metav1.NewTime(time.Now().Add(time.Hour))}},
				deploymentIn("mine", "shared", time.Hour))
		}, false},
		{"their namespace does not exist", func(s *scene) {
			s.define("theirs")
			s.Delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
			s.Put(deploymentIn("mine", "shared", time.Hour))
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			row.given(s)
			require.Equal(t, row.want, s.conflict(t))
		})
	}
}

// counted counts the Deployments that are read, and the lists of ClusterServiceVersions.
type counted struct {
	client.Reader
	n, lists int
}

func (c *counted) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*operatorsv1alpha1.ClusterServiceVersionList); ok {
		c.lists++
	}
	return c.Reader.List(ctx, list, opts...)
}

func (c *counted) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*appsv1.Deployment); ok {
		c.n++
	}
	return c.Reader.Get(ctx, key, obj, opts...)
}

// A tenant can create any number of ClusterServiceVersions that claim the API of another tenant and list any number of
// Deployments.
func TestTheWorkForClaimsOfOtherTenantsIsLimited(t *testing.T) {
	s := newScene(t)
	many := func(csv *operatorsv1alpha1.ClusterServiceVersion, n int) *operatorsv1alpha1.ClusterServiceVersion {
		for range n {
			csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = append(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs,
				operatorsv1alpha1.StrategyDeploymentSpec{Name: "none"})
		}
		return csv
	}
	s.Put(many(csvIn("evil", "things.example.com"), 10_000))
	for i := range maxCandidates {
		csv := csvIn("evil", "things.example.com")
		csv.Name, csv.UID = fmt.Sprintf("op.%d", i), types.UID(fmt.Sprint(i))
		csv.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Minute))
		s.Put(csv)
	}
	serving := deploymentIn("evil", "shared", 0)
	serving.Name = "serving"
	s.Put(serving)
	require.True(t, s.conflict(t), "the oldest come first")
	reads := &counted{Reader: s.Cached("self")}
	c := Conflicts{Reader: reads, RBAC: s.RBAC(), Proofs: proofs.Keys(), Groups: scoped.Default{}.Lookup(reads), Filter: filter{s.RBAC()}}
	_, err := c.Rival(t.Context(), s.mine, s.owner, s.targets)
	require.NoError(t, err)
	require.LessOrEqual(t, reads.n, maxCandidates+maxDeployments+1)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Rival(ended, s.mine, s.owner, s.targets)
	require.ErrorIs(t, err, context.Canceled)
}

// Many tenants install the same operator, each for its own namespace.
func TestNothingIsReadOfOperatorsThatServeOtherNamespaces(t *testing.T) {
	s := newScene(t)
	s.Put(deploymentIn("theirs", "other", 0), deploymentIn("mine", "shared", time.Hour))
	for _, namespace := range []string{"a", "b", "c"} {
		s.Put(csvIn(namespace, "things.example.com"), deploymentIn(namespace, namespace, time.Hour))
	}
	for targets, reads := range map[string]int{"shared": 0, "shared,a": 2, "a,b": 3, "": 5, strings.Repeat("x,", maxLookups) + "a": 5} {
		counts := &counted{Reader: s.Cached("self")}
		c := Conflicts{Reader: counts, RBAC: s.RBAC(), Proofs: proofs.Keys(), Groups: scoped.Default{}.Lookup(counts), Filter: filter{s.RBAC()}}
		found, err := c.Rival(t.Context(), s.mine, s.owner, strings.Split(targets, ","))
		require.NoError(t, err)
		require.Empty(t, found)
		require.Equal(t, reads == 0, counts.lists == 0)
		require.Equal(t, reads, counts.n, "if there are others that serve %q, these and the own Deployment", targets)
	}
}

func TestAnEditedAnnotationOfADeploymentIsReadUpToALimit(t *testing.T) {
	s := newScene(t)
	s.editTheirs(func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations[names.AnnotationTargetNamespaces] = strings.Repeat("x,", scoped.MaxTargets+1) + "shared"
	})
	require.False(t, s.conflict(t))
}

// Any user can write the annotation, and an index needs about 600 bytes for each namespace.
func TestADeploymentWithManyTargetsIsIndexedOnce(t *testing.T) {
	s := newScene(t)
	for _, others := range []int{maxKeys - 1, maxKeys, scoped.MaxTargets - 1} {
		s.editTheirs(func(d *appsv1.Deployment) {
			d.Spec.Template.Annotations[names.AnnotationTargetNamespaces] = strings.Repeat("x,", others) + "shared"
			require.LessOrEqual(t, len(serves(d)), maxKeys)
		})
		require.True(t, s.conflict(t), "the conflict is found with %d other targets", others)
	}
}
