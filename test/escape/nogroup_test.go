package escape

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/escape/forge"
)

// withoutGroup contains users who write what an account will install while the namespace has no OperatorGroup.
func withoutGroup() []row {
	const before = "remit-create-the-operatorgroup-before-the-subscription"
	subscription := func(s *scene) *operatorsv1alpha1.Subscription {
		return &operatorsv1alpha1.Subscription{ObjectMeta: s.Meta("early"), Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: "catalog", CatalogSourceNamespace: s.Namespace, Package: probe, Channel: forge.Channel,
		}}
	}
	rows := []row{
		{number: "361", title: "a Subscription that is created before the OperatorGroup", holds: p1(), play: func(s *scene) {
			c := s.author("subscriptions", "*")
			s.publish(bundleOf(csv()))
			require.ErrorContains(s.T, c.Create(s.T.Context(), subscription(s)), before)
			labeled := subscription(s)
			labeled.Labels = map[string]string{anyAccount: ""}
			require.ErrorContains(s.T, c.Create(s.T.Context(), labeled), "every ServiceAccount of namespace "+s.Namespace)
			s.group(s.Namespace)
			s.settle()
			s.nothingWritten()
		}},
		{number: "362", title: "an installed operator that is changed while its OperatorGroup is deleted", holds: p1(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			installed := s.Succeeded(probeCSV)
			require.Equal(s.T, s.Namespace+"/"+accountName, installed.Annotations[names.AnnotationAccount])
			c := s.authorWho(rule("operators.coreos.com", "subscriptions clusterserviceversions", "get", "create", "patch"))
			s.Eventually(func(t *assert.CollectT) {
				assert.NotEmpty(t, s.Subscription(s.T).Status.GetCondition(names.ConditionAuthorUnchecked).Message)
			})
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName)}))
			s.Eventually(func(t *assert.CollectT) { // the policies no longer know the OperatorGroup
				assert.ErrorContains(t, c.Create(s.T.Context(), subscription(s), client.DryRunAll), before)
			})
			refused := func(obj client.Object, kind types.PatchType, body string) {
				s.denied(c.Patch(s.T.Context(), obj, client.RawPatch(kind, []byte(body))))
			}
			refused(installed.DeepCopy(), types.JSONPatchType, `[{"op":"replace","path":"/spec/install/spec/deployments/0/spec/template/spec/containers/0/image","value":"evil.example.com/x"}]`)
			refused(s.Subscription(s.T), types.MergePatchType, `{"spec":{"config":{"env":[{"name":"LD_PRELOAD","value":"/evil.so"}]}}}`)
			s.group(s.Namespace)
			s.settle()
			s.Succeeded(probeCSV)
			s.runsUnchanged()
		}},
	}
	rows = append(rows, row{number: "367", title: "what an account that does not exist yet will install, while its OperatorGroup is deleted", holds: p1(), play: func(s *scene) {
		require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &corev1.ServiceAccount{ObjectMeta: s.Meta(accountName)}))
		s.group(s.Namespace)
		s.publish(bundleOf(csv()))
		named := rule("", "serviceaccounts", "impersonate")
		named.ResourceNames = []string{accountName}
		s.bind(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "early"}, "early",
			profile{own: []rbacv1.PolicyRule{rule("operators.coreos.com", "subscriptions clusterserviceversions", "create", "patch"), named, rule("", "pods", "list")}})
		author := s.knownAs("early")
		sub := subscription(s)
		require.NoError(s.T, author.Create(s.T.Context(), sub))
		require.NoError(s.T, s.apply(author, csv().Object))
		s.Eventually(func(t *assert.CollectT) {
			assert.NoError(t, s.Get(sub.Name, sub))
			assert.Contains(t, sub.Status.GetCondition(names.ConditionAuthorUnchecked).Message, s.Namespace+"/"+accountName)
			assert.Equal(t, s.Namespace+"/"+accountName, s.CSV(t, probeCSV).Annotations[names.AnnotationAccount])
		})
		c := s.authorWho(rule("operators.coreos.com", "subscriptions clusterserviceversions", "get", "create", "patch"))
		require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName)}))
		s.Eventually(func(t *assert.CollectT) { // the policies no longer know the OperatorGroup
			late := subscription(s)
			late.Name = "late"
			assert.ErrorContains(t, c.Create(s.T.Context(), late, client.DryRunAll), before)
		})
		for _, obj := range []client.Object{sub, s.CSV(s.T, probeCSV)} {
			s.denied(c.Patch(s.T.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"displayName":"another","channel":"another"}}`))))
		}
	}})
	return slices.Concat(rows, unlabeled(), uninstalled())
}

// uninstalled contains users who change what nothing was installed for, once the OperatorGroups with whose accounts its author was
// compared are deleted.
func uninstalled() []row {
	early := func(s *scene) client.Client {
		named := rule("", "serviceaccounts", "impersonate")
		named.ResourceNames = []string{accountName}
		s.bind(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "early"}, "early",
			profile{own: []rbacv1.PolicyRule{rule("operators.coreos.com", "subscriptions clusterserviceversions", "create", "patch"), named, rule("", "pods", "list")}})
		return s.knownAs("early")
	}
	second := func(s *scene) *operatorsv1.OperatorGroup {
		return &operatorsv1.OperatorGroup{ObjectMeta: s.Meta("second"), Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: accountName, TargetNamespaces: []string{s.Namespace}}}
	}
	recorded := func(s *scene, reason string) *operatorsv1alpha1.ClusterServiceVersion {
		var out *operatorsv1alpha1.ClusterServiceVersion
		s.Eventually(func(t *assert.CollectT) {
			out = s.CSV(t, probeCSV)
			assert.Equal(t, reason, string(out.Status.Reason))
			assert.Equal(t, s.Namespace+"/"+accountName, out.Annotations[names.AnnotationAccount])
		})
		return out
	}
	subscribed := func(s *scene) *operatorsv1alpha1.Subscription {
		sub := &operatorsv1alpha1.Subscription{ObjectMeta: s.Meta("early"), Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: "catalog", CatalogSourceNamespace: s.Namespace, Package: probe, Channel: forge.Channel}}
		require.NoError(s.T, early(s).Create(s.T.Context(), sub))
		s.Eventually(func(t *assert.CollectT) {
			assert.NoError(t, s.Get(sub.Name, sub))
			assert.Contains(t, sub.Status.GetCondition(names.ConditionAuthorUnchecked).Message, s.Namespace+"/"+accountName)
		})
		return sub
	}
	// cannotBeChanged deletes the OperatorGroups, and requires that users who may not use the account cannot change an object.
	cannotBeChanged := func(s *scene, obj client.Object) {
		c := s.authorWho(rule("operators.coreos.com", "subscriptions clusterserviceversions", "get", "create", "patch"))
		for _, og := range []client.Object{&operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName)}, second(s)} {
			require.NoError(s.T, client.IgnoreNotFound(cluster.Client.Delete(s.T.Context(), og)))
		}
		s.Eventually(func(t *assert.CollectT) { // the policies no longer know the OperatorGroups
			late := &operatorsv1alpha1.Subscription{ObjectMeta: s.Meta("late"), Spec: &operatorsv1alpha1.SubscriptionSpec{Package: probe}}
			assert.ErrorContains(t, c.Create(s.T.Context(), late, client.DryRunAll), "no params found")
		})
		s.denied(c.Patch(s.T.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"displayName":"another","channel":"another"}}`))))
		s.noDeployments()
	}
	return []row{
		{number: "368", title: "a ClusterServiceVersion that does not support its OperatorGroup, once the group is deleted", holds: p1(), play: func(s *scene) {
			s.group(s.Namespace)
			everywhere := csv().Set([]any{map[string]any{"type": "AllNamespaces", "supported": true}}, "spec", "installModes")
			require.NoError(s.T, s.apply(early(s), everywhere.Object))
			cannotBeChanged(s, recorded(s, "UnsupportedOperatorGroup"))
		}},
		{number: "369", title: "a ClusterServiceVersion of a namespace with two OperatorGroups, once both are deleted", holds: p1(), play: func(s *scene) {
			s.group(s.Namespace)
			s.Create(second(s))
			require.NoError(s.T, s.apply(early(s), csv().Object))
			cannotBeChanged(s, recorded(s, "TooManyOperatorGroups"))
		}},
		{number: "370", title: "a Subscription of a namespace with two OperatorGroups, once both are deleted", holds: p1(), play: func(s *scene) {
			s.group(s.Namespace)
			s.Create(second(s))
			cannotBeChanged(s, subscribed(s))
		}},
		{number: "371", title: "a Subscription that was created while its OperatorGroup was being deleted", holds: p1(), play: func(s *scene) {
			og := s.group(s.Namespace)
			hold := func(finalizers string) {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
				require.NoError(s.T, client.IgnoreNotFound(cluster.Client.Patch(context.WithoutCancel(s.T.Context()), og, patch)))
			}
			hold(`["example.com/hold"]`)
			defer hold("null")
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), og))
			sub := subscribed(s)
			hold("null")
			cannotBeChanged(s, sub)
		}},
	}
}

// unlabeled contains users who evade the author check with the label of copies, or while an OperatorGroup is being deleted.
func unlabeled() []row {
	return []row{
		{number: "364", title: "an InstallPlan with the label of copies that is created before the OperatorGroup", holds: p1(), play: func(s *scene) {
			const before = "remit-create-the-operatorgroup-before-the-installplan"
			ip := s.waiting()
			plan := resolver.Plan{Namespace: s.Namespace}
			require.NoError(s.T, json.Unmarshal([]byte(ip.Annotations[names.AnnotationPlan]), &plan.Pins))
			plan.Pins[0].Subscription, plan.Pins[0].SubscriptionUID = "nothing", "none"
			for _, obj := range []client.Object{s.Subscription(s.T), ip, &operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName)}} {
				require.NoError(s.T, client.IgnoreNotFound(cluster.Client.Delete(s.T.Context(), obj)))
			}
			c := s.author("installplans", "get", "create")
			mine := &operatorsv1alpha1.InstallPlan{ObjectMeta: s.Meta(plan.Name())}
			mine.Annotations = map[string]string{names.AnnotationPlan: plan.Encode()}
			mine.Spec = operatorsv1alpha1.InstallPlanSpec{Approval: operatorsv1alpha1.ApprovalAutomatic, Approved: true, ClusterServiceVersionNames: []string{probeCSV}}
			s.Eventually(func(t *assert.CollectT) { // the policies no longer know the OperatorGroup
				assert.ErrorContains(t, c.Create(s.T.Context(), mine.DeepCopy(), client.DryRunAll), "no params found")
			})
			mine.Labels = map[string]string{names.LabelCopiedFrom: neighbor}
			require.ErrorContains(s.T, c.Create(s.T.Context(), mine), before)
			s.group(s.Namespace)
			s.noDeployments()
			s.nothingWritten()
		}},
		{number: "372", title: "a catalog that offers what an operator of another catalog requires", holds: p1(), play: func(s *scene) {
			const before = "remit-create-the-operatorgroup-before-the-catalogsource"
			c := s.author("catalogsources", "*")
			evil := func() *operatorsv1alpha1.CatalogSource {
				return &operatorsv1alpha1.CatalogSource{ObjectMeta: s.Meta("evil"), Spec: operatorsv1alpha1.CatalogSourceSpec{
					SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "evil", Priority: 1000,
				}}
			}
			require.ErrorContains(s.T, c.Create(s.T.Context(), evil()), before)
			labeled := evil()
			labeled.Labels = map[string]string{anyAccount: ""}
			require.ErrorContains(s.T, c.Create(s.T.Context(), labeled), "every ServiceAccount of namespace "+s.Namespace)
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			s.denied(c.Create(s.T.Context(), evil()))
			used := &operatorsv1alpha1.CatalogSource{ObjectMeta: s.Meta("catalog")}
			s.denied(c.Patch(s.T.Context(), used, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"sourceType":"configmap","configMap":"evil","image":null}}`))))
			s.runsUnchanged()
		}},
		{number: "365", title: "a copy whose label is removed by a user who may act as every account of the namespace", holds: p1(), play: func(s *scene) {
			c := s.authorWho(rule("operators.coreos.com", "clusterserviceversions", "get", "create", "patch"), rule("", "serviceaccounts", "impersonate"))
			copied := csv().Set(map[string]any{names.LabelCopiedFrom: neighbor}, "metadata", "labels")
			require.NoError(s.T, s.apply(c, copied.Object))
			s.labelDenied(c.Patch(s.T.Context(), s.CSV(s.T, probeCSV), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"olm.copiedFrom":null}}}`))))
			s.group(s.Namespace)
			s.noDeployments()
			s.nothingWritten()
		}},
		{number: "366", title: "what users write while a finalizer delays the deletion of the OperatorGroup", holds: p1(), play: func(s *scene) {
			hold := func(finalizers string) {
				og := &operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName)}
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
				require.NoError(s.T, client.IgnoreNotFound(cluster.Client.Patch(context.WithoutCancel(s.T.Context()), og, patch)))
			}
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			hold(`["example.com/hold"]`)
			defer hold("null")
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName)}))
			s.csvSays(succeeded, "is being deleted")
			c := s.authorWho(rule("operators.coreos.com", "subscriptions clusterserviceversions", "get", "create", "patch"), rule("", "serviceaccounts", "impersonate"))
			require.NoError(s.T, s.apply(c, forge.NewCSV("late.v1.0.0").RenameObjects("late").Object))
			require.NoError(s.T, c.Patch(s.T.Context(), s.Subscription(s.T), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"config":{"env":[{"name":"LATE","value":"x"}]}}}`))))
			s.Eventually(func(t *assert.CollectT) {
				late := s.CSV(t, "late.v1.0.0")
				assert.Equal(t, pending, late.Status.Phase)
				assert.Contains(t, late.Status.Message, "is being deleted")
			})
			s.settle()
			s.runsUnchanged()
			deployments := &appsv1.DeploymentList{}
			s.list(deployments)
			require.Len(s.T, deployments.Items, 1)
			require.NotContains(s.T, fmt.Sprint(deployments.Items[0].Spec.Template.Spec.Containers[0].Env), "LATE")
		}},
	}
}
