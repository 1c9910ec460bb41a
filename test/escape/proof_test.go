package escape

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/proof"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

const (
	proofAnnotation = "remit.dev/proof"
	keptMap         = `{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}, data: {key: ours}}`
)

// forgeries returns rows about objects that look as if Remit had created them: they have the labels, the field manager
// and the owner references that Remit sets.
func forgeries() []row {
	planted := func(number, manifest string, more ...rbacv1.PolicyRule) row {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
			panic(err)
		}
		holds := p0()
		holds.cluster = more
		return row{number: number, title: "a " + obj.GetKind() + " that collides with an install and has the install's marks and field manager", holds: holds, play: func(s *scene) {
			theirs := obj.DeepCopy()
			s.forged(theirs)
			own := csv()
			if obj.GetKind() == "ServiceAccount" {
				s.install(bundleOf(own))
			} else {
				s.install(bundleOf(own, manifest))
			}
			s.planSays(collides, "no proof that Remit created it")
			s.unchanged(theirs)
			s.noDeployments()
		}}
	}
	return []row{
		{number: "130", title: "a CSV that replaces an install's CSV and has its marks and field manager, by a user who may not delete that CSV", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			victim := s.Succeeded(probeCSV)
			attacker := forge.NewCSV("attacker.v9.0.0").RenameObjects("attacker").Set(probeCSV, "spec", "replaces").Set(s.marks(), "metadata", "labels")
			theirs := &unstructured.Unstructured{Object: attacker.Object}
			theirs.SetNamespace(s.Namespace)
			author := s.csvAuthor()
			require.NoError(s.T, author.Apply(s.T.Context(), client.ApplyConfigurationFromUnstructured(theirs), s.manager()))
			s.Eventually(func(c *assert.CollectT) { assert.Equal(c, succeeded, s.CSV(c, "attacker.v9.0.0").Status.Phase) })
			s.settle()
			s.stays(victim)
		}},
		{number: "130a", title: "a CSV that replaces an install's CSV and has its marks, field manager and a copy of its proof", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			victim := s.Succeeded(probeCSV)
			attacker := forge.NewCSV("attacker.v9.0.0").RenameObjects("attacker").Set(probeCSV, "spec", "replaces").Set(s.marks(), "metadata", "labels").
				Set(map[string]any{proofAnnotation: victim.Annotations[proofAnnotation]}, "metadata", "annotations")
			theirs := &unstructured.Unstructured{Object: attacker.Object}
			theirs.SetNamespace(s.Namespace)
			author := s.csvAuthor()
			require.NoError(s.T, author.Apply(s.T.Context(), client.ApplyConfigurationFromUnstructured(theirs), s.manager()))
			s.Eventually(func(c *assert.CollectT) {
				got := s.CSV(c, "attacker.v9.0.0")
				assert.Equal(c, succeeded, got.Status.Phase)
				assert.Contains(c, got.Status.Message, "made for another object")
			})
			s.settle()
			s.stays(victim)
		}},
		planted("131", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: operator}}`),
		planted("131a", keptMap),
		planted("131b", `{apiVersion: v1, kind: Secret, metadata: {name: kept}, stringData: {key: ours}}`),
		planted("131c", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: kept.escape.test}, rules: []}`,
			rule(rbacv1.GroupName, "clusterroles", "get", "create", "patch", "delete")),
		planted("131d", `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: kept}, rules: []}`),
		{number: "132", title: "foreign objects with an operator's marks, field manager and a copy of its proof, when the operator is removed", holds: removesAnything(), play: func(s *scene) {
			s.allow(func(c oracle.Change) bool {
				return c.Group == rbacv1.GroupName && c.Namespace == "" && c.How == "created"
			})
			s.install(bundleOf(csv().ClusterPermissions(csvReadsPods())))
			s.Succeeded(probeCSV)
			s.allow(nil)
			roles := &rbacv1.ClusterRoleList{}
			require.NoError(s.T, cluster.Client.List(s.T.Context(), roles, client.MatchingLabels{names.LabelLineage: s.lineage().Mark()}))
			require.Len(s.T, roles.Items, 1)
			var foreign []*unstructured.Unstructured
			for _, manifest := range []string{
				`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: foreign-%s}, rules: []}`,
				`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: foreign-%s, namespace: t2}, rules: []}`,
				`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: foreign-%s}, webhooks: []}`,
			} {
				obj := &unstructured.Unstructured{}
				require.NoError(s.T, yaml.Unmarshal([]byte(fmt.Sprintf(manifest, s.Namespace)), &obj.Object))
				obj.SetAnnotations(map[string]string{proofAnnotation: roles.Items[0].Annotations[proofAnnotation]})
				s.forged(obj)
				foreign = append(foreign, obj)
			}
			s.removeCSV()
			for _, obj := range foreign {
				s.unchanged(obj)
			}
		}},
		{number: "133", title: "an object of an install that a user recreates with a copy of all its metadata", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv(), keptMap))
			s.Succeeded(probeCSV)
			s.Complete() // otherwise, the first plan may still apply the object
			theirs := s.replaced("kept")
			s.republish(s.upgrade())
			// The copied proof is for the original object, which was deleted or created at another time.
			s.upgradeSays(collides, "was made for an object")
			s.unchanged(theirs)
		}},
		{number: "193", title: "a CRD left by an install in an earlier namespace with the same name", holds: p2(), play: func(s *scene) {
			const group = "left-193.escape.test"
			s.allow(func(c oracle.Change) bool { return strings.HasSuffix(c.Name, "."+group) || c.Name == s.Namespace })
			v1 := servedVersion("v1", true, anything)
			s.install(bundleOf(owning("things."+group, "v1", "Thing"), crdOf(group, "things", "Thing", "", v1)))
			s.Complete()
			left := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "things." + group}, left))
			s.succeededBy(left.CreationTimestamp.Time, p2())
			s.install(bundleOf(owning("things."+group, "v2", "Thing"), crdOf(group, "things", "Thing", "",
				servedVersion("v1", false, anything), servedVersion("v2", true, anything))))
			s.planSays("CustomResourceDefinition things."+group, collides, "created for an earlier namespace with the same name")
			s.nothingWritten()
			after := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "things." + group}, after))
			require.Equal(s.T, left.Generation, after.Generation)
		}},
		{number: "193a", title: "a binding of an operator's ServiceAccount left by an install in an earlier namespace with the same name", holds: p3(), play: func(s *scene) {
			s.allow(func(c oracle.Change) bool {
				return c.Group == rbacv1.GroupName && c.Namespace == "" || c.Name == s.Namespace
			})
			s.install(bundleOf(csv().ClusterPermissions(csvReadsPods())))
			s.Succeeded(probeCSV)
			bindings := &rbacv1.ClusterRoleBindingList{}
			require.NoError(s.T, cluster.Client.List(s.T.Context(), bindings, client.MatchingLabels{names.LabelLineage: s.lineage().Mark()}))
			require.Len(s.T, bindings.Items, 1)
			left := &bindings.Items[0]
			s.T.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), left) })
			// Without this binding, no account has permission to remove the operator's binding when the namespace is deleted.
			granted := &rbacv1.ClusterRoleBinding{}
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: s.Namespace + "-" + accountName}, granted))
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), granted))
			s.settle()
			s.succeededBy(left.CreationTimestamp.Time, p0())
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(left), left))
			s.install(bundleOf(csv()))
			s.csvSays(failed, "may not run as ServiceAccount", "not newer than the ServiceAccount", "permissions outside of namespace")
			s.noDeployments()
			granted.ResourceVersion, granted.UID = "", "" // the oracle needs this binding to check the objects of the first install
			s.Create(granted)
		}},
		{number: "134", title: "a Secret with the marks and the field manager of the certificate that an install creates", holds: calling(p0()), play: func(s *scene) {
			s.allow(s.isForHooks)
			theirs := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
				"data": map[string]any{"tls.crt": "eA==", "tls.key": "eA=="}}}
			theirs.SetName("operator-service-cert")
			s.forged(theirs)
			s.install(bundleOf(hooked(csv(), harmless())))
			s.planSays("nothing was written", "no proof that Remit created it")
			require.NoError(s.T, s.apply(s.mallory(), hooked(csv(), harmless()).Object)) // without a plan
			s.Eventually(func(c *assert.CollectT) {
				assert.Contains(c, s.CSV(c, probeCSV).Status.Message, "Secret "+s.Namespace+"/"+theirs.GetName()+" already exists and was not created by this install")
			})
			s.unchanged(theirs)
			s.noDeployments()
			s.removeCSV()
			s.uncalled()
		}},
		{number: "135", title: "a new key, and then the loss of all keys", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv(), keptMap))
			victim := s.Succeeded(probeCSV)
			keys := s.keys()
			s.setKeys(map[string][]byte{"key-1": keys["key-1"], "key-2": []byte(rand.String(32))})
			s.Eventually(func(c *assert.CollectT) { assert.NoError(c, s.touch(probeCSV)) })
			s.settle()
			s.stays(victim)

			s.setKeys(map[string][]byte{"key-3": []byte(rand.String(32))})
			s.Eventually(func(c *assert.CollectT) {
				assert.NoError(c, s.touch(probeCSV))
				assert.Contains(c, s.CSV(c, probeCSV).Status.Message, "was made with key-1, which Secret remit/remit-proof does not contain")
			})
			require.NoError(s.T, s.Get(forge.Deployment, &appsv1.Deployment{}))
			s.setKeys(keys)
			s.Eventually(func(c *assert.CollectT) {
				assert.NoError(c, s.touch(probeCSV))
				got := s.CSV(c, probeCSV)
				assert.Equal(c, succeeded, got.Status.Phase, got.Status.Message)
				assert.Equal(c, victim.UID, got.UID)
			})
		}},
		{number: "136", title: "a restore from a backup, which an administrator confirms", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv(), keptMap))
			s.Succeeded(probeCSV)
			s.Complete()
			s.replaced("kept")
			s.republish(s.upgrade())
			s.upgradeSays(collides)
			keys := s.keys()
			keys["trusted-before"] = []byte(time.Now().Add(time.Minute).UTC().Format(time.RFC3339))
			s.setKeys(keys)
			s.Eventually(func(c *assert.CollectT) { // an event for the OperatorGroup triggers a retry of the plan
				og := &operatorsv1.OperatorGroup{}
				assert.NoError(c, s.Get(groupName, og))
				og.Annotations = map[string]string{"example.com/restored": rand.String(8)}
				assert.NoError(c, cluster.Client.Update(s.T.Context(), og))
				got := s.upgradePlan(c)
				assert.Equal(c, corev1.ConditionTrue, got.Status, got.Message)
			})
			s.Succeeded(laterCSV)
			cm := &corev1.ConfigMap{}
			require.NoError(s.T, s.Get("kept", cm))
			require.Equal(s.T, "ours", cm.Data["key"])
		}},
	}
}

func (s *scene) lineage() ownerutil.Lineage {
	return ownerutil.Lineage{Package: probe, Namespace: s.Namespace}
}

// manager returns the field manager of the scene's install.
func (s *scene) manager() client.FieldOwner {
	return client.FieldOwner(names.FieldManager + "-" + s.lineage().ShortMark())
}

// marks returns all labels of the scene's install.
func (s *scene) marks() map[string]any {
	out := map[string]any{}
	for key, value := range (ownerutil.Owner{Lineage: s.lineage(), CSV: probeCSV}).Labels() {
		out[key] = value
	}
	return out
}

// forged creates an object with the marks and the field manager of the scene's install.
func (s *scene) forged(obj *unstructured.Unstructured) {
	s.T.Helper()
	if strings.HasPrefix(obj.GetKind(), "Cluster") || strings.HasPrefix(obj.GetKind(), "Validating") {
		s.T.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), obj) })
	} else if obj.GetNamespace() == "" {
		obj.SetNamespace(s.Namespace)
	} else {
		s.T.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), obj) })
	}
	require.NoError(s.T, unstructured.SetNestedMap(obj.Object, s.marks(), "metadata", "labels"))
	require.NoError(s.T, cluster.Client.Apply(s.T.Context(), client.ApplyConfigurationFromUnstructured(obj), s.manager()))
}

// unchanged asserts that an object has not changed.
func (s *scene) unchanged(obj *unstructured.Unstructured) {
	s.T.Helper()
	after := obj.DeepCopy()
	require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(obj), after))
	require.Equal(s.T, obj.GetUID(), after.GetUID())
	require.Equal(s.T, obj.GetResourceVersion(), after.GetResourceVersion())
}

// replaced deletes a ConfigMap of the install and applies another one with the same metadata.
func (s *scene) replaced(name string) *unstructured.Unstructured {
	s.T.Helper()
	was := &corev1.ConfigMap{}
	require.NoError(s.T, s.Get(name, was))
	require.NoError(s.T, cluster.Client.Delete(s.T.Context(), was))
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": "theirs"}}}
	obj.SetNamespace(s.Namespace)
	obj.SetName(name)
	obj.SetLabels(was.Labels)
	obj.SetAnnotations(was.Annotations)
	obj.SetOwnerReferences(was.OwnerReferences)
	require.NoError(s.T, cluster.Client.Apply(s.T.Context(), client.ApplyConfigurationFromUnstructured(obj), s.manager()))
	return obj
}

// upgrade returns the bundle of the next version, which contains the same ConfigMap as the bundle of the first version.
func (s *scene) upgrade() *forge.Bundle {
	b := forge.Of(probe, nextVersion().Set("2.0.0", "spec", "version"), keptMap)
	b.Version, b.Edges = "2.0.0", map[string]any{"replaces": probeCSV}
	return b
}

// upgradePlan returns the Installed condition of the next version's InstallPlan.
func (s *scene) upgradePlan(c assert.TestingT) operatorsv1alpha1.InstallPlanCondition {
	list := &operatorsv1alpha1.InstallPlanList{}
	assert.NoError(c, cluster.Client.List(s.T.Context(), list, client.InNamespace(s.Namespace)))
	for _, plan := range list.Items {
		if slices.Contains(plan.Spec.ClusterServiceVersionNames, laterCSV) {
			return plan.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
		}
	}
	return operatorsv1alpha1.InstallPlanCondition{}
}

// upgradeSays is like planSays, but for the plan of the next version.
func (s *scene) upgradeSays(words ...string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		got := s.upgradePlan(c)
		assert.Equal(c, corev1.ConditionFalse, got.Status)
		for _, w := range words {
			assert.Contains(c, got.Message, w)
		}
	})
}

// proofs loads the keys with which Remit's programs create and check proofs.
func (s *scene) proofs() *proof.Keys {
	s.T.Helper()
	keys, err := proof.Load(s.T.Context(), cluster.Client, proof.Options{Scheme: cluster.Client.Scheme(),
		Secret: types.NamespacedName{Namespace: names.DefaultNamespace, Name: names.SecretProof}})
	require.NoError(s.T, err)
	return keys
}

// keys returns the content of the Secret with the keys for proofs.
func (s *scene) keys() map[string][]byte {
	s.T.Helper()
	secret := &corev1.Secret{}
	require.NoError(s.T, cluster.Client.Get(s.T.Context(), types.NamespacedName{Namespace: names.DefaultNamespace, Name: "remit-proof"}, secret))
	return secret.Data
}

// setKeys replaces the keys for proofs until the end of the row.
func (s *scene) setKeys(data map[string][]byte) {
	s.T.Helper()
	before := s.keys()
	set := func(ctx context.Context, have, want map[string][]byte) error {
		patch := map[string]any{}
		for name := range have {
			patch[name] = nil
		}
		for name, value := range want {
			patch[name] = base64.StdEncoding.EncodeToString(value)
		}
		raw, err := json.Marshal(map[string]any{"data": patch})
		if err != nil {
			return err
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: names.DefaultNamespace, Name: "remit-proof"}}
		return cluster.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, raw))
	}
	require.NoError(s.T, set(s.T.Context(), before, data))
	s.T.Cleanup(func() { assert.NoError(s.T, set(context.Background(), data, before)) })
}

// succeededBy simulates another tenant who gets a namespace with the same name. It deletes the namespace and, at least
// five seconds after the given time, recreates it with an account that has the profile.
func (s *scene) succeededBy(created time.Time, holds profile) {
	s.T.Helper()
	s.deleteNamespace()
	s.Eventually(func(c *assert.CollectT) {
		err := cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: s.Namespace}, &corev1.Namespace{})
		assert.True(c, apierrors.IsNotFound(err) && time.Since(created) > 5*time.Second, "%v", err)
	})
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
	s.account(accountName, profile{own: holds.own})
	s.Enroll()
	s.audited = auditedUntilNow(s.T)
}
