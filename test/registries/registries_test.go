package registries

import (
	"context"
	"slices"
	"testing"
	"testing/fstest"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

const global = names.DefaultCatalogNamespace

func eventually(t *testing.T, check func(c *assert.CollectT)) {
	t.Helper()
	env.Eventually(t, check)
}

func sample(t *testing.T) string {
	t.Helper()
	content, err := env.SampleFBC()
	require.NoError(t, err)
	return content
}

// source is a CatalogSource in the global catalog namespace.
type source struct {
	*testing.T
	name string
}

func create(t *testing.T, name string, spec operatorsv1alpha1.CatalogSourceSpec) source {
	t.Helper()
	spec.SourceType = operatorsv1alpha1.SourceTypeGrpc
	cs := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: global, Name: name}, Spec: spec}
	require.NoError(t, cluster.Client.Create(t.Context(), cs))
	t.Cleanup(func() { _ = cluster.Client.Delete(context.WithoutCancel(t.Context()), cs) })
	return source{t, name}
}

func (s source) key() client.ObjectKey { return client.ObjectKey{Namespace: global, Name: s.name} }

func (s source) get(c assert.TestingT) *operatorsv1alpha1.CatalogSource {
	cs := &operatorsv1alpha1.CatalogSource{}
	assert.NoError(c, cluster.Client.Get(s.Context(), s.key(), cs))
	return cs
}

// edit changes the spec.
func (s source) edit(change func(spec *operatorsv1alpha1.CatalogSourceSpec)) {
	s.Helper()
	cs := s.get(s)
	before := cs.DeepCopy()
	change(&cs.Spec)
	require.NoError(s, cluster.Client.Patch(s.Context(), cs, client.MergeFrom(before)))
}

// ready waits until the registry has been read without errors, and returns the CatalogSource.
func (s source) ready() *operatorsv1alpha1.CatalogSource {
	s.Helper()
	var cs *operatorsv1alpha1.CatalogSource
	eventually(s.T, func(c *assert.CollectT) {
		cs = s.get(c)
		assert.Empty(c, cs.Status.Message)
		if assert.NotNil(c, cs.Status.GRPCConnectionState) {
			assert.Equal(c, "READY", cs.Status.GRPCConnectionState.LastObservedState)
		}
	})
	return cs
}

// says waits until the status contains all of the given texts, and returns the CatalogSource.
func (s source) says(texts ...string) *operatorsv1alpha1.CatalogSource {
	s.Helper()
	var cs *operatorsv1alpha1.CatalogSource
	eventually(s.T, func(c *assert.CollectT) {
		cs = s.get(c)
		assert.Equal(c, operatorsv1alpha1.CatalogSourceRegistryServerError, cs.Status.Reason)
		for _, text := range texts {
			assert.Contains(c, cs.Status.Message, text)
		}
	})
	return cs
}

// pods returns the CatalogSource's Pods, except those that are being deleted.
func (s source) pods(c assert.TestingT) []corev1.Pod {
	list := &corev1.PodList{}
	assert.NoError(c, cluster.Client.List(s.Context(), list, client.InNamespace(global)))
	var out []corev1.Pod
	for _, p := range list.Items {
		if owner := metav1.GetControllerOf(&p); owner != nil && owner.Name == s.name && p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out
}

// pod waits until the CatalogSource has exactly one Pod, which serves the image, and returns it.
func (s source) pod(image string) *corev1.Pod {
	s.Helper()
	var out *corev1.Pod
	eventually(s.T, func(c *assert.CollectT) {
		pods := s.pods(c)
		if assert.Len(c, pods, 1) {
			out = &pods[0]
			assert.Equal(c, image, out.Spec.Containers[0].Image)
			assert.Equal(c, s.name, out.Labels[names.LabelCatalogSource])
			assert.NotContains(c, out.Labels, names.LabelCatalogSourceUpdate)
			assert.True(c, server.IsReady(out))
		}
	})
	return out
}

// nothing waits until all objects that were created for the CatalogSource are deleted.
func (s source) nothing() {
	s.Helper()
	eventually(s.T, func(c *assert.CollectT) {
		assert.Empty(c, s.pods(c))
		assert.True(c, apierrors.IsNotFound(cluster.Client.Get(s.Context(), s.key(), &corev1.Service{})))
		assert.True(c, apierrors.IsNotFound(cluster.Client.Get(s.Context(), s.key(), &corev1.ServiceAccount{})))
	})
}

func polled() *operatorsv1alpha1.UpdateStrategy {
	return &operatorsv1alpha1.UpdateStrategy{RegistryPoll: &operatorsv1alpha1.RegistryPoll{RawInterval: "1s"}}
}

func TestRunsARegistryAndInstallsFromIt(t *testing.T) {
	t.Parallel()
	ref, pinned := push(t, "serves", "v1", sample(t))
	s := create(t, "serves", operatorsv1alpha1.CatalogSourceSpec{Image: ref, Secrets: []string{"pull"}})
	pod := s.pod(pinned)
	got := s.ready().Status
	require.Equal(t, "serves.remit-catalogs.svc:50051", got.GRPCConnectionState.Address)
	require.False(t, got.GRPCConnectionState.LastConnectTime.IsZero())
	require.Equal(t, "serves", got.RegistryServiceStatus.ServiceName)
	require.Equal(t, global, got.RegistryServiceStatus.ServiceNamespace)
	require.Equal(t, "50051", got.RegistryServiceStatus.Port)

	require.Empty(t, pod.Spec.Volumes, "no token")
	require.Equal(t, "serves", pod.Spec.ServiceAccountName)
	require.Equal(t, []corev1.LocalObjectReference{{Name: "pull"}}, pod.Spec.ImagePullSecrets, "the pull secret comes from the ServiceAccount")
	require.True(t, *pod.Spec.SecurityContext.RunAsNonRoot, "the namespace enforces this")

	install(cluster.Tenant(t), "serves")

	require.NoError(t, cluster.Client.Delete(t.Context(), pod))
	eventually(t, func(c *assert.CollectT) {
		for _, p := range s.pods(c) {
			assert.NotEqual(c, pod.UID, p.UID)
		}
	})
	second := s.pod(pinned)
	s.ready()

	// Simulate an eviction by the kubelet. The simulated node reverts the status as soon as it observes it.
	eventually(t, func(c *assert.CollectT) {
		now := &corev1.Pod{}
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(second), now)
		assert.True(c, apierrors.IsNotFound(err))
		if err == nil {
			now.Status.Phase, now.Status.Reason = corev1.PodFailed, "Evicted"
			assert.NoError(c, cluster.Client.Status().Update(t.Context(), now))
		}
	})
	s.pod(pinned)
	s.ready()

	service := &corev1.Service{}
	require.NoError(t, cluster.Client.Get(t.Context(), s.key(), service))
	require.NoError(t, cluster.Client.Delete(t.Context(), service))
	eventually(t, func(c *assert.CollectT) {
		assert.NoError(c, cluster.Client.Get(t.Context(), s.key(), &corev1.Service{}))
	})

	require.NoError(t, cluster.Client.Delete(t.Context(), s.get(t)))
	s.nothing()
}

func TestReplacesTheImageWhenTheNewOneIsReady(t *testing.T) {
	t.Parallel()
	ref, v1 := push(t, "updates", "v1", sample(t))
	s := create(t, "updates", operatorsv1alpha1.CatalogSourceSpec{Image: ref, UpdateStrategy: polled()})
	first := s.pod(v1)
	s.ready()

	// Move the tag to an image whose Pods exit immediately.
	push(t, "updates", "v1", "")
	got := s.says("update Pod updates-", "failed: CrashLoopBackOff", "exit code 1", "next poll", "continues to serve")
	require.Equal(t, "READY", got.Status.GRPCConnectionState.LastObservedState)
	require.Equal(t, first.UID, s.pod(v1).UID)

	_, v3 := push(t, "updates", "v1", sample(t)+"\n")
	third := s.pod(v3)
	require.NotEqual(t, first.UID, third.UID)
	s.ready()
}

func TestDeletesARegistryThatIsNoLongerNeeded(t *testing.T) {
	t.Parallel()
	ref, pinned := push(t, "turns", "v1", sample(t))
	s := create(t, "turns", operatorsv1alpha1.CatalogSourceSpec{Image: ref})
	s.pod(pinned)
	s.ready()

	made, err := registry.Catalog(fstest.MapFS{"catalog.json": {Data: []byte(sample(t))}})
	require.NoError(t, err)
	files, _, err := images.Push("turns:files", made)
	require.NoError(t, err)
	s.edit(func(spec *operatorsv1alpha1.CatalogSourceSpec) { spec.Image = files })
	s.nothing()
	eventually(t, func(c *assert.CollectT) {
		cs := s.get(c)
		assert.Empty(c, cs.Status.Message)
		if assert.NotNil(c, cs.Status.GRPCConnectionState) {
			assert.Equal(c, "in-process", cs.Status.GRPCConnectionState.Address)
		}
	})

	s.edit(func(spec *operatorsv1alpha1.CatalogSourceSpec) { spec.Image = ref })
	s.pod(pinned)
	s.edit(func(spec *operatorsv1alpha1.CatalogSourceSpec) {
		spec.Image, spec.Address = "", "nowhere.remit-catalogs.svc:50051"
	})
	s.nothing()
}

func TestDoesNotRunATenantsRegistry(t *testing.T) {
	t.Parallel()
	ref, _ := push(t, "tenants", "v1", sample(t))
	tn := cluster.Tenant(t)
	tn.Catalog("catalog", ref)
	tn.Eventually(func(c *assert.CollectT) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", cs))
		assert.Equal(c, operatorsv1alpha1.CatalogSourceRegistryServerError, cs.Status.Reason)
		assert.Contains(c, cs.Status.Message, "registries run only in the global catalog namespace")
		assert.Contains(c, cs.Status.Message, "file-based catalog")
	})
	list := &corev1.PodList{}
	require.NoError(t, cluster.Client.List(t.Context(), list, client.InNamespace(tn.Namespace)))
	require.Empty(t, list.Items)
}

func TestDoesNotChangeObjectsOfOthers(t *testing.T) {
	t.Parallel()
	ref, pinned := push(t, "taken", "v1", sample(t))
	key := metav1.ObjectMeta{Namespace: global, Name: "taken"}
	account := &corev1.ServiceAccount{ObjectMeta: key}
	require.NoError(t, cluster.Client.Create(t.Context(), account))
	service := &corev1.Service{ObjectMeta: key, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}
	require.NoError(t, cluster.Client.Create(t.Context(), service))
	// A Pod with the label but a different owner is not a registry.
	strangers := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: global, Name: "stranger", Labels: map[string]string{names.LabelCatalogSource: "taken"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}
	restrict(strangers)
	require.NoError(t, cluster.Client.Create(t.Context(), strangers))

	s := create(t, "taken", operatorsv1alpha1.CatalogSourceSpec{Image: ref})
	got := s.says("ServiceAccount remit-catalogs/taken already exists and does not belong to this CatalogSource").Status
	require.Equal(t, "TRANSIENT_FAILURE", got.GRPCConnectionState.LastObservedState)
	require.Empty(t, got.RegistryServiceStatus.ServiceName, "it belongs to another owner")
	require.Empty(t, s.pods(t))
	require.NoError(t, cluster.Client.Delete(t.Context(), account))
	s.says("Service remit-catalogs/taken already exists and does not belong to this CatalogSource")
	require.Empty(t, s.pods(t))
	require.NoError(t, cluster.Client.Delete(t.Context(), service))
	s.pod(pinned)
	s.ready()
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(strangers), strangers))
	require.Nil(t, strangers.DeletionTimestamp)
}

// restrict sets the fields that the Pod Security level of the namespace requires.
func restrict(pod *corev1.Pod) {
	yes, no := true, false
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: "RuntimeDefault"}}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
}

// The controller identity may write Pods, Services and ServiceAccounts in the namespace, but admission denies
// everything that is not a registry.
func TestControllerIdentityCannotWriteWhatNoCatalogSourceOwns(t *testing.T) {
	t.Parallel()
	self := cluster.As(t, "system:serviceaccount:remit:"+names.ServiceAccountCatalog)
	ref, pinned := push(t, "own", "v1", sample(t))
	pod := create(t, "own", operatorsv1alpha1.CatalogSourceSpec{Image: ref}).pod(pinned)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: global, Name: "default"}}
	refused := func(err error) {
		t.Helper()
		require.True(t, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "remit-catalog may")
	}
	dry := client.NewDryRunClient(self)
	refused(dry.Delete(t.Context(), account))
	refused(dry.Patch(t.Context(), account, client.RawPatch("application/merge-patch+json", []byte(`{"imagePullSecrets":[{"name":"x"}]}`))))

	other := pod.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Namespace: global, Name: "x", OwnerReferences: slices.Clone(pod.OwnerReferences)}
	other.Spec.NodeName, other.Spec.AutomountServiceAccountToken = "", nil // the scheduler chooses the node
	refused(dry.Create(t.Context(), other))
	other.Spec.AutomountServiceAccountToken = pod.Spec.AutomountServiceAccountToken
	projecting := other.DeepCopy()
	projecting.Spec.Volumes = append(projecting.Spec.Volumes, corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}},
	}})
	refused(dry.Create(t.Context(), projecting))
	require.NoError(t, dry.Create(t.Context(), other.DeepCopy()))
	// The policy also accepts objects in the form in which OLM v0 writes them, because OLM v0 may have created the
	// ServiceAccount and the Service.
	other.OwnerReferences[0].Controller = nil
	require.NoError(t, dry.Create(t.Context(), other.DeepCopy()))
	other.OwnerReferences = nil
	refused(dry.Create(t.Context(), other))
	refused(dry.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"ownerReferences":null}}`))))
}

// Changes by a mutating webhook, which many clusters have, are accepted. OLM v0 endlessly recreated Pods in this case.
func TestAcceptsChangesByAMutatingWebhook(t *testing.T) {
	t.Parallel()
	const name = "mutated"
	rule := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{"CREATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}}
	require.NoError(t, cluster.Client.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "ours",
				Expression: "object.metadata.?labels['olm.catalogSource'].orValue('') == 'mutated'"}},
			Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
					Expression: "Object{spec: Object.spec{terminationGracePeriodSeconds: 7}}"}}},
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		},
	}))
	require.NoError(t, cluster.Client.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}))
	ref, pinned := push(t, name, "v1", sample(t))
	// Policies take effect a moment after they are created.
	eventually(t, func(c *assert.CollectT) {
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: global, Name: "probe", Labels: map[string]string{names.LabelCatalogSource: name}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
		restrict(probe)
		assert.NoError(c, client.NewDryRunClient(cluster.Client).Create(t.Context(), probe))
		assert.EqualValues(c, 7, ptr.Deref(probe.Spec.TerminationGracePeriodSeconds, 0))
	})
	s := create(t, name, operatorsv1alpha1.CatalogSourceSpec{Image: ref})
	pod := s.pod(pinned)
	require.EqualValues(t, 7, *pod.Spec.TerminationGracePeriodSeconds)
	s.ready()
	s.edit(func(spec *operatorsv1alpha1.CatalogSourceSpec) { spec.Priority = 3 })
	s.ready()
	require.Equal(t, pod.UID, s.pod(pinned).UID)
}

// After a migration from OLM v0, Remit adopts the objects that OLM v0 created for the same CatalogSource. It replaces the Pod
// as soon as a new one is ready.
func TestAdoptsRegistriesOfOLMv0(t *testing.T) {
	t.Parallel()
	s := create(t, "migrated", operatorsv1alpha1.CatalogSourceSpec{Image: images.Host + "/nowhere:v1"})
	s.says("NAME_UNKNOWN")
	owner := []metav1.OwnerReference{{APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: operatorsv1alpha1.CatalogSourceKind,
		Name: s.name, UID: s.get(t).UID}}
	meta := metav1.ObjectMeta{Namespace: global, Name: s.name, OwnerReferences: owner}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}
	require.NoError(t, cluster.Client.Create(t.Context(), service))
	yes := true
	old := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: global, GenerateName: s.name + "-", Labels: map[string]string{names.LabelCatalogSource: s.name}, OwnerReferences: owner},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}
	old.OwnerReferences[0].Controller = &yes
	restrict(old)
	require.NoError(t, cluster.Client.Create(t.Context(), old))
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	require.NoError(t, cluster.Client.Create(t.Context(), account))

	ref, pinned := push(t, s.name, "v1", sample(t))
	s.edit(func(spec *operatorsv1alpha1.CatalogSourceSpec) { spec.Image = ref })
	require.NotEqual(t, old.UID, s.pod(pinned).UID)
	s.ready()
	now := &corev1.ServiceAccount{}
	require.NoError(t, cluster.Client.Get(t.Context(), s.key(), now))
	require.Equal(t, account.UID, now.UID)
	require.False(t, *now.AutomountServiceAccountToken)
	require.NoError(t, cluster.Client.Get(t.Context(), s.key(), service))
	require.EqualValues(t, server.Port, service.Spec.Ports[0].Port)
}
