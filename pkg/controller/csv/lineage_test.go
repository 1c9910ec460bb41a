package csv

import (
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/proofs"
)

// renamed creates a version that replaces the given one. It has a different name, but the same Deployment as the demo.
func renamed(name, replaces string) change {
	return func(w *world) {
		c := parsed(w.t, demo, &operatorsv1alpha1.ClusterServiceVersion{})
		c.Name, c.Spec.Replaces = name, replaces
		c.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(-kit.SettleTime))
		w.Put(c)
	}
}

// called replaces the name of the demo in expected writes.
func called(name string, writes []string) []string {
	out := slices.Clone(writes)
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], "demo.v1.0.0", name)
	}
	return out
}

func TestAVersionWithAnotherNameInheritsTheLineageOfTheOneItReplaces(t *testing.T) {
	t.Parallel()
	second := func(more ...change) []change {
		return append([]change{installed, renamed("other.v2.0.0", "demo.v1.0.0"), settled, as("other.v2.0.0")}, more...)
	}
	third := second(installed, as("demo.v1.0.0"), settled, as("other.v2.0.0"), settled, renamed("more.v3.0.0", "other.v2.0.0"), settled, as("more.v3.0.0"))
	claims := func(w *world) {
		renamed("other.v2.0.0", "")(w)
		as("other.v2.0.0")(w)
		editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
			lineage := ownerutil.Lineage{Package: "demo", Namespace: "t1", Direct: true}
			c.Labels = map[string]string{names.LabelLineage: lineage.Mark()}
			c.Annotations[names.AnnotationLineage] = "demo"
		})(w)
	}
	labeled := deploymentOf("demo")
	labeled.Labels = map[string]string{names.LabelOwner: "demo.v0.9.0", names.LabelOwnerNamespace: "t1", names.LabelOwnerKind: "ClusterServiceVersion"}
	checkRows(t, []row{
		{"the Deployment is taken over", second(), installs(toInstall, called("other.v2.0.0", prepares(deploys))...)},
		{"the roles of the old version are removed", second(settled, available("demo")),
			runs("InstallSucceeded", completed, removed()...)},
		{"the old version is deleted", second(installed, as("demo.v1.0.0")), effect{moves: "Replaced", writes: []string{"acct: delete ClusterServiceVersion t1/demo.v1.0.0"}}},
		{"the new version keeps the lineage after the old one was deleted", second(installed, as("demo.v1.0.0"), settled, as("other.v2.0.0")), runs("", completed)},
		{"the lineage is inherited again", third, installs(toInstall, called("more.v3.0.0", prepares(deploys))...)},
		{"an installed version keeps its own lineage", []change{installed, renamed("x.v1.0.0", ""), phaseOf("x.v1.0.0", phaseReplacing),
			spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) { s.Replaces = "x.v1.0.0" })}, runs("", completed)},
		{"a lineage that a user only claims is not inherited", []change{installed, claims}, collides(ofDemo("other", "; no InstallPlan is known to have created "+
			"ClusterServiceVersion other.v2.0.0: it has no proof that Remit created it (annotation remit.dev/proof)"))},
		{"the lineage of a package is not inherited", []change{planned, installed, renamed("other.v2.0.0", "demo.v1.0.0"), as("other.v2.0.0")},
			collides(ofDemo("other", ""))},
		{"versions that replace one another in a circle", []change{renamed("x.v1.0.0", "y.v1.0.0"), renamed("y.v1.0.0", "x.v1.0.0"), phaseOf("x.v1.0.0", phaseReplacing),
			spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) { s.Replaces = "x.v1.0.0" })}, installs(toInstall, prepares(deploys)...)},
		{"a Deployment with OLM's labels is reported", []change{with(labeled)}, collides(ofDemo("demo", "; its label olm.owner names ClusterServiceVersion demo.v0.9.0, "+
			"but labels do not prove which install created an object"), noServiceAccount)},
	})
}

// ofDemo returns the message about a Deployment that does not belong to a version.
func ofDemo(lineage, why string) string {
	return `Deployment t1/demo already exists and was not created by this install: it does not have the lineage label of package "` + lineage + `" in namespace "t1"` + why +
		"; it was not changed: delete it if nothing else needs it, or uninstall the operator that its labels olm.owner and olm.owner.namespace identify"
}

// phaseOf sets the phase of another ClusterServiceVersion.
func phaseOf(name string, p operatorsv1alpha1.ClusterServiceVersionPhase) change {
	return func(w *world) {
		c := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name}}
		w.Get(c)
		c.Status.Phase = p
		w.Put(c)
	}
}

// sharedWith creates the demo's ServiceAccount as the install of another ClusterServiceVersion does.
func sharedWith(lineage ownerutil.Lineage, edits ...func(*corev1.ServiceAccount)) change {
	return func(w *world) {
		owner := ownerutil.Owner{Lineage: lineage, CSV: "a.v1.0.0", UID: "a", Proofs: proofs.Keys()}
		sa := serviceAccount("demo")
		sa.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(-60e9))
		proofs.Mark(sa, owner)
		sa.OwnerReferences = []metav1.OwnerReference{owner.Reference()}
		for _, edit := range edits {
			edit(sa)
		}
		w.Put(sa)
	}
}

func TestServiceAccountsAreSharedByTheInstallsOfANamespace(t *testing.T) {
	t.Parallel()
	ours := ownerutil.Lineage{Package: "a", Namespace: "t1"}
	relabeled := func(sa *corev1.ServiceAccount) {
		sa.Labels[names.LabelComponentPrefix+"a.t1"], sa.Labels[names.LabelOwnerNamespace] = "", "t1"
	}
	strong := func(w *world) { // bound after the ServiceAccount was created
		w.Put(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "strong"}, Rules: []rbacv1.PolicyRule{rule("", "secrets", "get")}},
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "strong"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "strong"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "demo"}}})
	}
	const pods = `ServiceAccount demo: PresentNotSatisfied Policy rule not satisfied for service account: in namespace t1 {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`
	notOurs := func(unmet string) effect {
		return effect{phase: phasePending, reason: reasonRequirementsNotMet, moves: "RequirementsNotMet", unmet: []string{unmet},
			message: "one or more requirements couldn't be found: " + strings.Replace(ofDemo("demo", ""), "Deployment", "ServiceAccount", 1)}
	}
	const ofAnother = "ServiceAccount demo: PresentNotSatisfied Service account is owned by another ClusterServiceVersion"
	const exceeds = `deployment "demo" may not run as ServiceAccount "demo": the install of the ClusterServiceVersion did not create it, and it has permissions that ` +
		`ServiceAccount t1/acct does not have: in namespace t1 {apiGroups: [""], resources: ["secrets"], verbs: ["get"]}`
	checkRows(t, []row{
		{"a ServiceAccount of another package", []change{sharedWith(ours)}, installs(toInstall, prepares(deploys)...)},
		{"a ServiceAccount of a version that a user created", []change{sharedWith(ownerutil.Lineage{Package: "a", Namespace: "t1", Direct: true})},
			installs(toInstall, prepares(deploys)...)},
		{"an installed operator", []change{sharedWith(ours), installed}, runs("", completed)},
		{"a ServiceAccount that a later install of the namespace shares", []change{installed, func(w *world) {
			sa := serviceAccount("demo")
			w.Get(sa)
			sa.OwnerReferences = append(sa.OwnerReferences, metav1.OwnerReference{APIVersion: "operators.coreos.com/v1alpha1", Kind: "ClusterServiceVersion", Name: "a.v1.0.0", UID: "a"})
			w.Put(sa)
		}}, runs("", completed)},
		{"a ServiceAccount of another namespace with the labels of this one", []change{sharedWith(ownerutil.Lineage{Package: "a", Namespace: "t2"}, relabeled)}, notOurs(ofAnother)},
		{"a ServiceAccount of a ClusterExtension with the labels of this namespace", []change{sharedWith(ownerutil.Lineage{Package: "a", Namespace: "t1", Extension: "a"}, relabeled)}, notOurs(pods).with(func(o *effect) {
			o.message = strings.Replace(o.message, "operator that its labels olm.owner and olm.owner.namespace identify", "ClusterExtension that its label olm.operatorframework.io/owner-name identifies", 1)
		})},
		{"a ServiceAccount with labels but no proof", []change{sharedWith(ours, func(sa *corev1.ServiceAccount) { delete(sa.Annotations, names.AnnotationProof) })}, notOurs(ofAnother)},
		{"a ServiceAccount with more permissions than the account", []change{sharedWith(ours), strong, may(append(withoutDeployments(), rule("apps", "deployments", "*"))...)},
			refuses(exceeds, preparesOnly()...).with(func(o *effect) {
				o.unmet = []string{"ServiceAccount acct: PresentNotSatisfied Policy rule not satisfied for service account: " + exceeds}
			})},
	})
}

func TestASharedServiceAccountStillBelongsToItsCreator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sharedWith(ownerutil.Lineage{Package: "a", Namespace: "t1"})(w)
	installed(w)
	sa := &corev1.ServiceAccount{}
	require.NoError(t, w.Client("remit").Get(t.Context(), client.ObjectKey{Namespace: "t1", Name: "demo"}, sa))
	require.Equal(t, "a.v1.0.0", sa.Labels[names.LabelOwner])
	require.Equal(t, w.csv.UID, sa.OwnerReferences[0].UID)
}
