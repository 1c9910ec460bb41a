package escape

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/escape/forge"
)

// extensionIdentities returns rows in which authors of ClusterExtensions try to get an identity that they may not use.
func extensionIdentities() []row {
	return []row{
		{number: "220", title: "a ClusterExtension created by a user who has no other permissions", play: func(s *scene) {
			x := s.extension("own", bundleOf(csv()))
			s.cannotCreate(s.extensionAuthor(), x.as(""))
			s.bind(s.authorSubject(), "installer", profile{cluster: []rbacv1.PolicyRule{s.mayInstall(x)}})
			user := cluster.As(s.T, s.authorSubject().Name)
			s.Eventually(func(c *assert.CollectT) {
				assert.NoError(c, client.IgnoreAlreadyExists(user.Create(s.T.Context(), x.as(""))))
			})
			s.T.Cleanup(x.discard)
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled, x.User().Username())
			s.settleExtensions()
			x.unused(x.User(), x.Since)
			x.enroll()
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions, "deployments")
			x.nothingWritten(x.Since)
			x.grant(withoutDeployments())
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions, "deployments")
			s.settleExtensions()
			x.nothingWritten(x.Since)
			s.absent(&corev1.ServiceAccount{}, forge.ServiceAccount)
		}},
		{number: "220a", title: "a ClusterExtension that names a stronger ServiceAccount, which is not enrolled for ClusterExtensions", boss: true, play: func(s *scene) {
			x := s.extension("own", bundleOf(csv()))
			s.cannotCreate(s.extensionAuthor(s.mayInstall(x)), x.as(bossName))
			for _, obj := range scoped.Enrollment(client.ObjectKey{Namespace: s.Namespace, Name: bossName}, cluster.Home) {
				s.Create(obj) // enrolls it for the other programs
			}
			s.enrollAccount(accountName)
			x.create(x.as(bossName))
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled, bossName)
			s.settleExtensions()
			s.unminted(bossName)
			s.absent(&corev1.ServiceAccount{}, forge.ServiceAccount)
		}},
		{number: "220b", title: "a ClusterExtension in the namespace of another tenant, by a user who may install it", play: func(s *scene) {
			x := s.extension("own", bundleOf(csv()))
			x.enroll()
			x.grant(p0())
			x.namespace = neighbor
			require.NoError(s.T, s.extensionAuthor(s.mayInstall(x)).Create(s.T.Context(), x.as("")))
			s.T.Cleanup(x.discard)
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions, neighbor)
			x.nothingWritten(x.Since)
		}},
		{number: "221", title: "a deleted ClusterExtension that is recreated while a binding of its user remains", play: func(s *scene) {
			x := s.extension("left", bundleOf(csv()))
			x.install(p0())
			x.Installed("1.0.0")
			x.Remove()
			from := x.Mark()
			other := s.extensionNamed(s.Namespace + "-other")
			c := s.extensionAuthor(s.mayInstall(other), named(rule("", "users", "impersonate"), other.User().Username()))
			s.cannotCreate(c, x.as(""))
			s.cannotCreate(c, x.as(accountName))
			s.settleExtensions()
			x.unused(x.User(), from)
			s.absent(&corev1.ServiceAccount{}, forge.ServiceAccount)
		}},
		{number: "221a", title: "objects that an earlier ClusterExtension of the same name left behind, with their proofs", play: func(s *scene) {
			x := s.extension("left", bundleOf(csv(), keptMap))
			x.install(p0())
			x.Installed("1.0.0")
			left := s.installedObject("v1", "ConfigMap", "kept")
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), x.Get(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
			s.Eventually(func(c *assert.CollectT) {
				err := cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: x.Name}, &olmv1.ClusterExtension{})
				assert.True(c, apierrors.IsNotFound(err), "%v", err)
			})
			s.waitSince(left.GetCreationTimestamp().Time)
			from := x.Mark()
			x.create(x.as(""))
			x.stuck("ConfigMap "+s.Namespace+"/kept", collides)
			x.nothingWritten(from)
			require.Empty(s.T, s.installedObject("v1", "ConfigMap", "kept").GetOwnerReferences())
		}},
		{number: "222", title: "a change from a ServiceAccount to the synthetic user and back, in two steps", holds: p0(), boss: true, play: func(s *scene) {
			x := s.extension("changing", bundleOf(csv()))
			s.enrollAccount(accountName)
			s.enrollAccount(bossName) // as an administrator would for another ClusterExtension
			x.create(x.as(accountName))
			x.Installed("1.0.0")
			account := x.Identity()
			c := s.extensionAuthor(s.mayInstall(x))
			toBoss := func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = bossName }
			s.authorRefused(x.edit(c, toBoss))
			require.NoError(s.T, x.edit(c, func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "" }))
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
			from := x.Mark()
			s.authorRefused(x.edit(c, toBoss))
			s.authorRefused(x.edit(c, func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = accountName }))
			// A deleted object is not recreated as the earlier identity.
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &appsv1.Deployment{ObjectMeta: s.Meta(forge.Deployment)}))
			s.settleExtensions()
			require.Empty(s.T, x.writes(account, from))
			x.unused(x.User(), x.Since)
			s.unminted(bossName)
			s.absent(&appsv1.Deployment{}, forge.Deployment)
		}},
		{number: "222a", title: "a change from the synthetic user to a ServiceAccount that is not enrolled, and back", holds: p0(), play: func(s *scene) {
			x := s.extension("changing", bundleOf(csv()))
			x.install(p0())
			x.Installed("1.0.0")
			s.authorRefused(x.edit(s.extensionAuthor(s.mayInstall(x)), func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = accountName }))
			require.NoError(s.T, x.edit(cluster.Client, func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = accountName }))
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
			from := x.Mark()
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &appsv1.Deployment{ObjectMeta: s.Meta(forge.Deployment)}))
			s.settleExtensions()
			require.Empty(s.T, x.writes(x.User(), from))
			s.absent(&appsv1.Deployment{}, forge.Deployment)
			require.NoError(s.T, x.edit(cluster.Client, func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "" }))
			s.Eventually(func(c *assert.CollectT) { assert.NoError(c, s.Get(forge.Deployment, &appsv1.Deployment{})) })
		}},
		{number: "222b", title: "a deleted ServiceAccount whose enrollment and permissions remain", holds: p0(), play: func(s *scene) {
			x := s.extension("orphan", bundleOf(csv()))
			s.enrollAccount(accountName)
			x.enroll()
			x.grant(p0())
			x.create(x.as(accountName))
			x.Installed("1.0.0")
			was := &corev1.ServiceAccount{}
			require.NoError(s.T, s.Get(accountName, was))
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), was))
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonIdentityNotFound)
			from := x.Mark()
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &appsv1.Deployment{ObjectMeta: s.Meta(forge.Deployment)}))
			s.settleExtensions()
			require.Empty(s.T, slices.DeleteFunc(x.writes(x.Identity(), from), func(e audit.Event) bool { return !e.Wrote() }))
			x.unused(x.User(), x.Since)
			s.absent(&appsv1.Deployment{}, forge.Deployment)
		}},
		{number: "223", title: "names of ClusterExtensions that look like users of the control plane", play: func(s *scene) {
			x := s.extension("impostor", bundleOf(csv()))
			for _, name := range []string{
				"system:masters", "system:node:remit-node", "system:serviceaccount:" + s.Namespace + ":" + accountName, "a:b", "olm:clusterextension:a",
				"*", "../a", "a/b", "A", "a_b", "a\nb", strings.Repeat("a", 254), "",
			} {
				ext := x.as("")
				ext.Name = name
				require.True(s.T, apierrors.IsInvalid(cluster.Client.Create(s.T.Context(), ext)), "%q", name)
			}
			for _, name := range []string{"system.masters", "masters", "nodes", "remit-extension", "clusterextensions"} {
				impostor := s.extensionNamed(name)
				impostor.catalog = x.catalog
				impostor.create(impostor.as(""))
				impostor.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled, "olm:clusterextension:"+name)
				require.Equal(s.T, []string{"olm:clusterextensions", "system:authenticated"}, impostor.Get().Status.Identity.Groups)
				impostor.unused(impostor.User(), impostor.Since)
			}
		}},
		{number: "223a", title: "names of ClusterExtensions that resemble another one's", play: func(s *scene) {
			victim := s.extensionNamed(s.Namespace + strings.Repeat("a", 253-len(s.Namespace)))
			victim.offer(bundleOf(csv()))
			victim.install(p0())
			victim.Installed("1.0.0")
			before := s.standard()
			for _, name := range []string{
				victim.Name[:252], victim.Name[:200], victim.Name[:63], victim.Name[:252] + "c",
				ownerutil.LabelValue(victim.Name), strings.TrimPrefix(clusterextension.ReportName(victim.Name), "remit-report-clusterextension-"),
			} {
				impostor := s.extensionNamed(name)
				impostor.catalog = victim.catalog
				impostor.enroll()
				impostor.create(impostor.as(""))
				impostor.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions, "deployments")
				require.NotEqual(s.T, clusterextension.ReportName(victim.Name), clusterextension.ReportName(name))
				impostor.nothingWritten(impostor.Since)
			}
			// With the same permissions as the victim, the impostor's install collides with the victim's.
			impostor := s.extensionNamed(victim.Name[:251] + "cc")
			impostor.catalog = victim.catalog
			impostor.install(p0())
			impostor.refused(collides)
			s.same(before...)
		}},
	}
}

// mayInstall returns the rule that allows users to create a ClusterExtension without a ServiceAccount.
func (s *scene) mayInstall(x *extension) rbacv1.PolicyRule {
	return named(rule(olmv1.GroupVersion.Group, "clusterextensions", scoped.VerbInstall), x.Name)
}
