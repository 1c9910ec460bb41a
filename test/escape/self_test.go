package escape

import (
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// theft is a token stolen from one of Remit's programs. Rows use it only for dry runs, which the API server authorizes
// and admits as usual, so that a failed row leaves nothing behind.
type theft struct {
	*scene
	identity client.Client
	// program is the program that owns the token, and other is another program.
	program, other string
}

func (s *scene) steal(program, other string) *theft {
	s.T.Helper()
	return &theft{scene: s, identity: client.NewDryRunClient(s.bearingAs(oracle.Thief, names.DefaultNamespace, program)), program: program, other: other}
}

// refused asserts that RBAC or a policy, and not another check, refused the request.
func (x *theft) refused(what string, err error) {
	x.T.Helper()
	denied := apierrors.IsForbidden(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	require.True(x.T, denied, "%s: %v", what, err)
}

func (x *theft) createRefused(what string, obj client.Object) {
	x.T.Helper()
	x.refused(what, x.identity.Create(x.T.Context(), obj))
}

func (x *theft) patchRefused(what string, obj client.Object, patch string) {
	x.T.Helper()
	x.refused(what, x.identity.Patch(x.T.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func (x *theft) readRefused(what, namespace, name string, obj client.Object) {
	x.T.Helper()
	x.refused(what, x.identity.Get(x.T.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj))
}

func stolenTokens() []row {
	return append([]row{
		{number: "180", title: "the stolen token of remit-catalog, in Remit's own namespace and the whole cluster", holds: p0(), play: func(s *scene) {
			s.steal(names.ServiceAccountCatalog, names.ServiceAccountOLM).atHome()
		}},
		{number: "180a", title: "the stolen token of remit-olm, in Remit's own namespace and the whole cluster", holds: p0(), play: func(s *scene) {
			x := s.steal(names.ServiceAccountOLM, names.ServiceAccountCatalog)
			x.atHome()
			meta := metav1.ObjectMeta{Namespace: names.DefaultCatalogNamespace, Name: "x"}
			x.createRefused("a Service in the global catalog namespace", &corev1.Service{ObjectMeta: meta})
			x.createRefused("a Pod in the global catalog namespace", &corev1.Pod{ObjectMeta: meta})
			x.createRefused("a ServiceAccount in the global catalog namespace", &corev1.ServiceAccount{ObjectMeta: meta})
			x.refused("global pull secrets", x.identity.List(x.T.Context(), &corev1.SecretList{}, client.InNamespace(names.DefaultCatalogNamespace)))
		}},
		{number: "180b", title: "the stolen token of remit-catalog, in the global catalog namespace", holds: p0(), play: func(s *scene) {
			s.steal(names.ServiceAccountCatalog, names.ServiceAccountOLM).besideCatalogs()
		}},
		{number: "180c", title: "the stolen tokens, and Events", holds: p0(), play: func(s *scene) {
			s.steal(names.ServiceAccountCatalog, names.ServiceAccountOLM).events()
			s.steal(names.ServiceAccountOLM, names.ServiceAccountCatalog).events()
		}},
		{number: "180f", title: "the stolen token of remit-olm, and copies of ClusterServiceVersions", holds: p0(), play: func(s *scene) {
			s.steal(names.ServiceAccountOLM, names.ServiceAccountCatalog).copies()
		}},
	}, stolenFromExtensions()...)
}

// atHome tries attacks in Remit's own namespace.
func (x *theft) atHome() {
	x.T.Helper()
	home := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: names.DefaultNamespace, Name: name}
	}
	owned := home("x")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1", Kind: "CatalogSource", Name: "x", UID: "u"}}
	x.createRefused("a Service", &corev1.Service{ObjectMeta: owned, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}})
	x.createRefused("a Pod as the other program", &corev1.Pod{ObjectMeta: owned, Spec: corev1.PodSpec{ServiceAccountName: x.other,
		AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{{Name: "c", Image: "x"}}}})
	x.createRefused("a ServiceAccount", &corev1.ServiceAccount{ObjectMeta: owned})
	x.createRefused("a Secret", &corev1.Secret{ObjectMeta: home("x")})
	x.createRefused("a ConfigMap", &corev1.ConfigMap{ObjectMeta: home("x")})
	x.createRefused("a Lease", &coordinationv1.Lease{ObjectMeta: home("x")})

	x.readRefused("the other program's token", names.DefaultNamespace, x.other+"-token", &corev1.Secret{})
	x.readRefused("the other program's Lease", names.DefaultNamespace, x.other, &coordinationv1.Lease{})
	for _, namespace := range []string{names.DefaultNamespace, "kube-system", ""} {
		x.refused("Secrets in "+namespace, x.identity.List(x.T.Context(), &corev1.SecretList{}, client.InNamespace(namespace)))
		x.refused("ConfigMaps in "+namespace, x.identity.List(x.T.Context(), &corev1.ConfigMapList{}, client.InNamespace(namespace)))
		x.refused("Leases in "+namespace, x.identity.List(x.T.Context(), &coordinationv1.LeaseList{}, client.InNamespace(namespace)))
	}
	x.patchRefused("the other program's Lease", &coordinationv1.Lease{ObjectMeta: home(x.other)}, `{"spec":{"holderIdentity":"me"}}`)
	x.patchRefused("the root certificates", &corev1.ConfigMap{ObjectMeta: home("kube-root-ca.crt")}, `{"data":{"ca.crt":"mine"}}`)
	x.Eventually(func(c *assert.CollectT) { // a policy can deny a change only if the object exists
		assert.NoError(c, x.Get("kube-root-ca.crt", &corev1.ConfigMap{}))
	})
	x.patchRefused("the root certificates of a tenant", &corev1.ConfigMap{ObjectMeta: x.Meta("kube-root-ca.crt")}, `{"data":{"ca.crt":"mine"}}`)
	x.patchRefused("the other program's ServiceAccount", &corev1.ServiceAccount{ObjectMeta: home(x.other)}, `{"imagePullSecrets":[{"name":"x"}]}`)
	x.refused("a token for the other program", x.identity.SubResource("token").Create(x.T.Context(), &corev1.ServiceAccount{ObjectMeta: home(x.other)}, &authenticationv1.TokenRequest{}))
}

// events tries to write Events that the program must not write.
func (x *theft) events() {
	x.T.Helper()
	now := metav1.NowMicro()
	event := func(namespace, apiVersion, kind string, edit ...func(*eventsv1.Event)) *eventsv1.Event {
		out := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}, EventTime: now, Reason: "R", Action: "A", Type: "Normal",
			ReportingController: x.program, ReportingInstance: "x",
			Regarding: corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: "x"}}
		for _, e := range edit {
			e(out)
		}
		return out
	}
	const api = operatorsv1alpha1.GroupName + "/" + operatorsv1alpha1.GroupVersion
	require.NoError(x.T, x.identity.Create(x.T.Context(), event(x.Namespace, api, "InstallPlan")), "the program may write its own Events")
	x.createRefused("an Event in kube-system", event("kube-system", api, "InstallPlan"))
	x.createRefused("an Event about a Pod", event(x.Namespace, "v1", "Pod"))
	x.createRefused("an Event about an object in another namespace", event(x.Namespace, api, "InstallPlan", func(e *eventsv1.Event) { e.Regarding.Namespace = neighbor }))
	x.createRefused("an Event that another program reports", event(x.Namespace, api, "InstallPlan", func(e *eventsv1.Event) { e.ReportingController = x.other }))
	x.createRefused("an Event about the other program's Lease", event(names.DefaultNamespace, "coordination.k8s.io/v1", "Lease",
		func(e *eventsv1.Event) { e.Regarding.Name = x.other }))
	x.createRefused("an Event about a ClusterRole, with a reason other than LeftBehind", event("default", "rbac.authorization.k8s.io/v1", "ClusterRole",
		func(e *eventsv1.Event) { e.Regarding.Namespace = "" }))
	x.createRefused("an Event about a Pod, with the reason LeftBehind", event(x.Namespace, "v1", "Pod", func(e *eventsv1.Event) { e.Reason = "LeftBehind" }))
	x.createRefused("an Event in kube-system in the older API", &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "kube-system", Name: "x"}})

	others := event(x.Namespace, "v1", "Pod", func(e *eventsv1.Event) { e.ReportingController = "kubelet" })
	others.Name = "others-" + x.program
	x.Create(others)
	x.patchRefused("another program's Event", others, `{"metadata":{"labels":{"is":"mine"}}}`)
}

// besideCatalogs tries to abuse the permission to run registries.
func (x *theft) besideCatalogs() {
	x.T.Helper()
	source := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: names.DefaultCatalogNamespace, Name: "my.catalog"},
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: "none.remit-catalogs.svc:1"}}
	x.createOutside(source)
	registry := server.Registry{Source: source, Image: "example.com/registry@sha256:" + strings.Repeat("0", 64), Restricted: true}
	x.services(registry)
	x.accounts(registry)
	x.pods(registry)
	for what, list := range map[string]client.ObjectList{"all pull secrets": &corev1.SecretList{}, "all ConfigMaps": &corev1.ConfigMapList{}} {
		x.refused(what, x.identity.List(x.T.Context(), list, client.InNamespace(names.DefaultCatalogNamespace)))
	}
	x.patchRefused("the root certificates", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: names.DefaultCatalogNamespace, Name: "kube-root-ca.crt"}},
		`{"data":{"ca.crt":"mine"}}`)
	x.patchRefused("the default ServiceAccount", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: names.DefaultCatalogNamespace, Name: "default"}},
		`{"imagePullSecrets":[{"name":"x"}]}`)
}

func (x *theft) services(registry server.Registry) {
	x.T.Helper()
	made := registry.Service()
	require.NoError(x.T, x.identity.Create(x.T.Context(), made.DeepCopy()), "the Services that Remit writes must be admitted")
	for what, edit := range map[string]func(*corev1.Service){
		"externalIPs":       func(o *corev1.Service) { o.Spec.ExternalIPs = []string{"192.0.2.1"} },
		"type LoadBalancer": func(o *corev1.Service) { o.Spec.Type = corev1.ServiceTypeLoadBalancer },
		"type NodePort":     func(o *corev1.Service) { o.Spec.Type = corev1.ServiceTypeNodePort },
		"type ExternalName": func(o *corev1.Service) {
			o.Spec = corev1.ServiceSpec{Type: "ExternalName", ExternalName: "evil.example.com"}
		},
		"the name kubernetes":          func(o *corev1.Service) { o.Name, o.OwnerReferences[0].Name = "kubernetes", "kubernetes" },
		"another CatalogSource's name": func(o *corev1.Service) { o.Name = "other" },
		"no selector":                  func(o *corev1.Service) { o.Spec.Selector = nil },
		"another selector":             func(o *corev1.Service) { o.Spec.Selector = map[string]string{"app": "x"} },
		"a second selector label":      func(o *corev1.Service) { o.Spec.Selector["app"] = "x" },
		"another port":                 func(o *corev1.Service) { o.Spec.Ports[0].Port = 443 },
		"another target port":          func(o *corev1.Service) { o.Spec.Ports[0].TargetPort = intstr.FromInt32(443) },
		"Pods that are not ready":      func(o *corev1.Service) { o.Spec.PublishNotReadyAddresses = true },
		"no owner":                     func(o *corev1.Service) { o.OwnerReferences = nil },
		"an owner of another kind":     func(o *corev1.Service) { o.OwnerReferences[0].Kind = "Namespace" },
		"a finalizer":                  func(o *corev1.Service) { o.Finalizers = []string{"example.com/x"} },
		"Remit's own namespace":        func(o *corev1.Service) { o.Namespace = names.DefaultNamespace },
		"a tenant's namespace":         func(o *corev1.Service) { o.Namespace = x.Namespace },
	} {
		x.editRefused("a Service with "+what, made.DeepCopy(), func(o client.Object) { edit(o.(*corev1.Service)) })
	}
	live := made.DeepCopy()
	x.createOutside(live)
	x.patchRefused("a later change to externalIPs", live, `{"spec":{"externalIPs":["192.0.2.1"]}}`)
	x.patchRefused("a later change to the type", live, `{"spec":{"type":"LoadBalancer"}}`)
	x.patchRefused("the status", live, `{"metadata":{"ownerReferences":null}}`)
	defer x.deleteService(live)
	x.refused("the status of a Service", x.identity.Status().Patch(x.T.Context(), live,
		client.RawPatch("application/merge-patch+json", []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`))))
}

// deleteService deletes a Service and waits until the endpoints that the control plane wrote for it are deleted.
func (x *theft) deleteService(service *corev1.Service) {
	x.T.Helper()
	require.NoError(x.T, cluster.Client.Delete(x.T.Context(), service))
	x.Eventually(func(c *assert.CollectT) {
		slices := &discoveryv1.EndpointSliceList{}
		assert.NoError(c, cluster.Client.List(x.T.Context(), slices, client.InNamespace(service.Namespace)))
		assert.Empty(c, slices.Items)
		endpoints := &corev1.EndpointsList{} // the control plane still writes this deprecated kind
		assert.NoError(c, cluster.Client.List(x.T.Context(), endpoints, client.InNamespace(service.Namespace)))
		assert.Empty(c, endpoints.Items)
	})
}

func (x *theft) accounts(registry server.Registry) {
	x.T.Helper()
	made := registry.ServiceAccount()
	require.NoError(x.T, x.identity.Create(x.T.Context(), made.DeepCopy()), "the ServiceAccounts that Remit writes must be admitted")
	for what, edit := range map[string]func(*corev1.ServiceAccount){
		"a mounted token":           func(o *corev1.ServiceAccount) { o.AutomountServiceAccountToken = nil },
		"a Secret":                  func(o *corev1.ServiceAccount) { o.Secrets = []corev1.ObjectReference{{Name: "x"}} },
		"a cloud identity":          func(o *corev1.ServiceAccount) { o.Annotations = map[string]string{"eks.amazonaws.com/role-arn": "x"} },
		"another name":              func(o *corev1.ServiceAccount) { o.Name = "other" },
		"the other program's name":  func(o *corev1.ServiceAccount) { o.Name, o.Namespace = x.other, names.DefaultNamespace },
		"no owner":                  func(o *corev1.ServiceAccount) { o.OwnerReferences = nil },
		"an owner of another group": func(o *corev1.ServiceAccount) { o.OwnerReferences[0].APIVersion = "v1" },
	} {
		x.editRefused("a ServiceAccount with "+what, made.DeepCopy(), func(o client.Object) { edit(o.(*corev1.ServiceAccount)) })
	}
	live := made.DeepCopy()
	x.createOutside(live)
	x.refused("a token for a registry", x.identity.SubResource("token").Create(x.T.Context(), live, &authenticationv1.TokenRequest{}))
}

func (x *theft) pods(registry server.Registry) {
	x.T.Helper()
	made, err := registry.Pod()
	require.NoError(x.T, err)
	require.NoError(x.T, x.identity.Create(x.T.Context(), made.DeepCopy()), "the Pods that Remit writes must be admitted")
	require.NoError(x.T, x.identity.Create(x.T.Context(), server.AsUpdate(made)), "an update Pod must be admitted")
	for what, edit := range hostilePods() {
		x.editRefused("a Pod with "+what, made.DeepCopy(), func(o client.Object) { edit(o.(*corev1.Pod)) })
	}
	live := made.DeepCopy()
	live.Name, live.GenerateName = "my.catalog-live", "" // a fixed name, because the audit log contains no generated names
	live.Spec.NodeSelector = map[string]string{"none": "of-the-nodes"}
	x.createOutside(live)
	x.refused("another image", x.identity.Patch(x.T.Context(), live, client.RawPatch("application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"evil.example.com/x"}]`))))
	x.patchRefused("another owner", live, `{"metadata":{"ownerReferences":null}}`)
	x.patchRefused("another CatalogSource's label", live, `{"metadata":{"labels":{"olm.catalogSource":"other"}}}`)
	x.refused("an ephemeral container", x.identity.SubResource("ephemeralcontainers").Patch(x.T.Context(), live,
		client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"ephemeralContainers":[{"name":"x","image":"x"}]}}`))))
}

// hostilePods returns edits that turn a registry's Pod into a Pod that Remit never creates.
func hostilePods() map[string]func(*corev1.Pod) {
	container := func(edit func(*corev1.Container)) func(*corev1.Pod) {
		return func(o *corev1.Pod) { edit(&o.Spec.Containers[0]) }
	}
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(o *corev1.Pod) { o.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: source}} }
	}
	return map[string]func(*corev1.Pod){
		"the default ServiceAccount":             func(o *corev1.Pod) { o.Spec.ServiceAccountName = "default" },
		"another CatalogSource's ServiceAccount": func(o *corev1.Pod) { o.Spec.ServiceAccountName = "other" },
		"a mounted token":                        func(o *corev1.Pod) { o.Spec.AutomountServiceAccountToken = nil },
		"environment variables for Services":     func(o *corev1.Pod) { o.Spec.EnableServiceLinks = ptr.To(true) },
		"another CatalogSource's label":          func(o *corev1.Pod) { o.Labels[names.LabelCatalogSource] = "other" },
		"another CatalogSource's update label":   func(o *corev1.Pod) { o.Labels[names.LabelCatalogSourceUpdate] = "other" },
		"no owner":                               func(o *corev1.Pod) { o.OwnerReferences = nil },
		"two owners": func(o *corev1.Pod) {
			o.OwnerReferences = append(o.OwnerReferences, o.OwnerReferences[0])
			o.OwnerReferences[1].UID, o.OwnerReferences[1].Controller = "v", nil
		},
		"a finalizer":           func(o *corev1.Pod) { o.Finalizers = []string{"example.com/x"} },
		"Remit's own namespace": func(o *corev1.Pod) { o.Namespace = names.DefaultNamespace },
		"the node's network":    func(o *corev1.Pod) { o.Spec.HostNetwork = true },
		"the node's processes":  func(o *corev1.Pod) { o.Spec.HostPID = true },
		"the node's IPC":        func(o *corev1.Pod) { o.Spec.HostIPC = true },
		"a node":                func(o *corev1.Pod) { o.Spec.NodeName = "node" },
		"its own hosts file entries": func(o *corev1.Pod) {
			o.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"quay.io"}}}
		},
		"sysctls": func(o *corev1.Pod) {
			o.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "0"}}
		},
		"a second container": func(o *corev1.Pod) {
			o.Spec.Containers = append(o.Spec.Containers, corev1.Container{Name: "b", Image: "x"})
		},
		"an init container":   func(o *corev1.Pod) { o.Spec.InitContainers = []corev1.Container{{Name: "b", Image: "x"}} },
		"an image with a tag": container(func(c *corev1.Container) { c.Image = "evil.example.com/x:v1" }),
		"a command":           container(func(c *corev1.Container) { c.Command = []string{"sh"} }),
		"arguments":           container(func(c *corev1.Container) { c.Args = []string{"-c"} }),
		"a port on the node":  container(func(c *corev1.Container) { c.Ports[0].HostPort = 50051 }),
		"all keys of a Secret": container(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "pull"}}}}
		}),
		"a key of a Secret": container(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "pull"}, Key: "x"}}}}
		}),
		"a probe of another host": container(func(c *corev1.Container) {
			c.ReadinessProbe.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254", Port: intstr.FromInt32(80)}}
		}),
		"a hook": container(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}}
		}),
		"privileges":   container(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)} }),
		"a capability": container(func(c *corev1.Container) { c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"} }),
		"a hostPath":   volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		"a Secret":     volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "pull"}}),
		"a ConfigMap":  volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}}),
		"a claim":      volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}),
		"a projected token": volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}),
	}
}

// editRefused asserts that an otherwise admissible object is refused after the edit.
func (x *theft) editRefused(what string, obj client.Object, edit func(client.Object)) {
	x.T.Helper()
	edit(obj)
	x.createRefused(what, obj)
}
