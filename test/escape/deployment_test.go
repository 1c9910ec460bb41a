package escape

import (
	"net/http"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/escape/forge"
)

// withoutDeployments returns profile P0 without permission to create Deployments.
func withoutDeployments() profile {
	p := p0()
	p.own = slices.DeleteFunc(p.own, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "deployments") })
	return p
}

// refusedServiceAccount returns rows whose Deployment must not run as the ServiceAccount that it names.
func refusedServiceAccount(number, title string, c func() forge.CSV, words ...string) []row {
	return []row{
		{number: number, title: title, holds: p0(), boss: true, play: func(s *scene) {
			s.install(bundleOf(c()))
			s.csvSays(failed, words...)
			s.noDeployments()
		}},
		{number: number + "-direct", title: title + ", in a CSV that a tenant creates", holds: p0(), boss: true, play: func(s *scene) {
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), c().Object))
			s.csvSays(failed, words...)
			s.noDeployments()
		}},
	}
}

func deployments() []row {
	runsAs := func(name string) func() forge.CSV {
		return func() forge.CSV { return csv().PodSpec(name, "serviceAccountName") }
	}
	return slices.Concat(
		refusedServiceAccount("44", "a Deployment that runs as a stronger ServiceAccount", runsAs(bossName), "may not run as ServiceAccount", bossName),
		refusedServiceAccount("44a", "a Deployment that names a stronger ServiceAccount in the deprecated field",
			func() forge.CSV { return csv().PodSpec(nil, "serviceAccountName").PodSpec(bossName, "serviceAccount") }, "may not run as", bossName),
		refusedServiceAccount("44b", "a Deployment that runs as the account itself", runsAs(accountName), "it is the account that bounds this install"),
		[]row{
			{number: "44c", title: "a CSV that declares the stronger ServiceAccount as its own", holds: p0(), boss: true, play: func(s *scene) {
				s.install(bundleOf(declaresBoss()))
				s.planSays("ServiceAccount "+s.Namespace+"/"+bossName, collides)
				s.nothingWritten()
				s.noDeployments()
			}},
			{number: "44c-direct", title: "a CSV that declares the stronger ServiceAccount, created by a tenant", holds: p0(), boss: true, play: func(s *scene) {
				s.group(s.Namespace)
				require.NoError(s.T, s.apply(s.mallory(), declaresBoss().Object))
				s.csvSays(pending, bossName, collides)
				s.noDeployments()
			}},
			{number: "44d", title: "a bundle that contains the stronger ServiceAccount", holds: p0(), boss: true, play: func(s *scene) {
				s.install(bundleOf(runsAs(bossName)(), `{apiVersion: v1, kind: ServiceAccount, metadata: {name: boss}}`))
				s.planSays("ServiceAccount "+s.Namespace+"/"+bossName, collides)
				s.nothingWritten()
			}},
			{number: "44e", title: "a CSV that declares the account itself", holds: p0(), play: func(s *scene) {
				s.install(bundleOf(csv().Permissions(forge.Entry(accountName, readMaps)).PodSpec(accountName, "serviceAccountName")))
				s.planSays("ServiceAccount "+s.Namespace+"/"+accountName, collides)
				s.nothingWritten()
			}},
			{number: "191", title: "a CSV that declares a ServiceAccount that does not exist but is bound to more permissions than the account has", holds: p0(), play: func(s *scene) {
				s.bossIsLeft()
				s.install(bundleOf(declaresBoss()))
				s.csvSays(failed, "may not run as ServiceAccount", "not newer than the ServiceAccount", "permissions outside of namespace")
				s.neverRunsAs(bossName)
				require.NoError(s.T, cluster.Client.Delete(s.T.Context(), s.bossBinding()))
				s.csvSays(succeeded)
			}},
			{number: "191-direct", title: "a tenant's own CSV that declares a ServiceAccount that does not exist but is bound to more permissions than the account has", holds: p0(), play: func(s *scene) {
				s.bossIsLeft()
				s.group(s.Namespace)
				require.NoError(s.T, s.apply(s.mallory(), declaresBoss().Object))
				s.csvSays(failed, "may not run as ServiceAccount", "not newer than the ServiceAccount")
				s.noDeployments()
			}},
			{number: "46", title: "an account that may not create Deployments", holds: withoutDeployments(), play: func(s *scene) {
				s.install(bundleOf(csv()))
				s.isMissing("deployments")
				s.Grant(s.Namespace, rule("apps", "deployments", "get", "create", "patch", "delete"))
				s.Succeeded(probeCSV)
			}},
			{number: "46-direct", title: "an account that may not create Deployments, and a CSV that a tenant creates", holds: withoutDeployments(), play: func(s *scene) {
				s.group(s.Namespace)
				require.NoError(s.T, s.apply(s.mallory(), csv().Object))
				s.csvSays(failed, "is missing permissions", "deployments")
				s.noDeployments()
				s.Grant(s.Namespace, rule("apps", "deployments", "get", "create", "patch", "delete"))
				s.csvSays(succeeded)
			}},
			{number: "47", title: "a Deployment of another owner with the name of the CSV's Deployment", holds: p0(), play: func(s *scene) {
				theirs := s.strangersDeployment()
				s.install(bundleOf(csv()))
				s.planSays("Deployment "+s.Namespace+"/"+forge.Deployment, collides)
				s.nothingWritten()
				s.untouched(theirs)
			}},
			{number: "47-direct", title: "a Deployment of another owner with the name of the CSV's Deployment, and a CSV that a tenant creates", holds: p0(), play: func(s *scene) {
				theirs := s.strangersDeployment()
				s.group(s.Namespace)
				require.NoError(s.T, s.apply(s.mallory(), csv().Object))
				s.csvSays(pending, "Deployment "+s.Namespace+"/"+forge.Deployment, collides)
				s.untouched(theirs)
			}},
			{number: "49", title: "volumes, environment variables and tokens in a Subscription's config", holds: p0(), play: func(s *scene) {
				s.enforce("baseline")
				s.group(s.Namespace)
				s.publish(bundleOf(csv()))
				s.subscribe(hostileConfig)
				// The Deployment is created as the account, so admission and quota apply to the account. Pod Security rejects its
				// Pods.
				s.csvSays(operatorsv1alpha1.CSVPhaseInstalling)
				s.settle()
				pods := &corev1.PodList{}
				s.list(pods)
				require.Empty(s.T, pods.Items)
				s.madeByAccount("deployments", forge.Deployment)
			}},
			{number: "50", title: "annotations of the CSV that are copied to its Pods", holds: p0(), play: func(s *scene) {
				annotations := map[string]any{
					"container.apparmor.security.beta.kubernetes.io/operator": "unconfined", "k8s.v1.cni.cncf.io/networks": "kube-system/host",
					"sidecar.istio.io/inject": "false", "kubectl.kubernetes.io/default-container": "x", "operatorframework.io/kept": "yes", "description": "kept",
				}
				s.install(bundleOf(csv().Set(annotations, "metadata", "annotations")))
				s.Succeeded(probeCSV)
				d := &appsv1.Deployment{}
				require.NoError(s.T, s.Get(forge.Deployment, d))
				for key := range annotations {
					require.Equal(s.T, strings.HasPrefix(key, "operatorframework.io/") || key == "description",
						d.Spec.Template.Annotations[key] != "", key)
				}
			}},
		})
}

// neverRunsAs asserts that no Deployment runs as the ServiceAccount after all pending work has finished.
func (s *scene) neverRunsAs(name string) {
	s.T.Helper()
	s.settle()
	list := &appsv1.DeploymentList{}
	s.list(list)
	for i := range list.Items {
		require.NotEqual(s.T, name, list.Items[i].Spec.Template.Spec.ServiceAccountName, list.Items[i].Name)
	}
}

// bossIsLeft creates a leftover binding for the stronger ServiceAccount. The ServiceAccount itself does not exist.
func (s *scene) bossIsLeft() {
	s.T.Helper()
	s.told.Stronger = []string{bossName}
	s.createOutside(s.bossBinding())
}

func (s *scene) bossBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-left"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: bossName}}}
}

func (s *scene) strangersDeployment() *appsv1.Deployment {
	s.T.Helper()
	labels := map[string]string{"app": "theirs"}
	d := &appsv1.Deployment{ObjectMeta: s.Meta(forge.Deployment)}
	d.Labels = labels
	d.Spec.Selector = selector(labels)
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "theirs", Image: forge.Image}}
	s.Create(d)
	return d
}

// untouched asserts that the Deployment is unchanged after all pending work has finished.
func (s *scene) untouched(before *appsv1.Deployment) {
	s.T.Helper()
	s.settle()
	after := &appsv1.Deployment{}
	require.NoError(s.T, s.Get(before.Name, after))
	require.Equal(s.T, before.UID, after.UID)
	require.Equal(s.T, before.Generation, after.Generation)
	require.Equal(s.T, before.Labels, after.Labels)
}

// enforce enables Pod Security admission at this level for the namespace.
func (s *scene) enforce(level string) {
	s.T.Helper()
	namespace := &corev1.Namespace{}
	require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: s.Namespace}, namespace))
	before := namespace.DeepCopy()
	namespace.Labels["pod-security.kubernetes.io/enforce"] = level
	require.NoError(s.T, cluster.Client.Patch(s.T.Context(), namespace, client.MergeFrom(before)))
}

func hostileConfig(spec *operatorsv1alpha1.SubscriptionSpec) {
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "vault"}}
	spec.Config = &operatorsv1alpha1.SubscriptionConfig{
		EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "crown"}}}},
		Volumes: []corev1.Volume{
			{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
			{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{token}}}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "host", MountPath: "/host"}, {Name: "token", MountPath: "/token"}},
	}
}

// madeByAccount asserts that an object in the namespace was created by a request sent as the account.
func (s *scene) madeByAccount(resource, name string) {
	s.T.Helper()
	for _, e := range s.writes() {
		if e.Object.Resource == resource && e.Object.Name == name && e.Response.Code == http.StatusCreated {
			return
		}
	}
	assert.Failf(s.T, "the account did not create the object", "%s %s", resource, name)
}
