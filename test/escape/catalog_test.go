package escape

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing/fstest"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/escape/forge"
)

// unreachable creates a CatalogSource with an address that its author must not reach, and a Subscription to it. It
// asserts that Remit does not read the catalog.
func (s *scene) unreachable(where string, words ...string) {
	s.T.Helper()
	s.group(s.Namespace)
	s.catalogSource("catalog", operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: where})
	s.subscribe()
	s.catalogSays(append(words, "address")...)
	s.refused("its content is not available")
}

// externalService is a Service whose name resolves outside the cluster.
func externalService(s *scene) *corev1.Service {
	return &corev1.Service{ObjectMeta: s.Meta("elsewhere"),
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "metadata.internal.example.com"}}
}

func catalogs() []row {
	rows := []row{
		{number: "89", title: "a catalog with the account's name and an image of its author", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			s.catalogSource(accountName, operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: "evil.example.com/catalog"})
			s.subscribe(func(spec *operatorsv1alpha1.SubscriptionSpec) { spec.CatalogSource = accountName })
			s.refused("its content is not available")
			pods := &corev1.PodList{}
			s.list(pods)
			require.Empty(s.T, pods.Items)
			require.Empty(s.T, s.tokensOf(accountName))
		}},
		{number: "89a", title: "an image of the catalog's author that would have to run", holds: p1(), play: func(s *scene) {
			made, err := registry.Image(nil, s.layerOf("bin/registry=#!/bin/sh"))
			require.NoError(s.T, err)
			ref, _, err := images.Push(s.Namespace+":v1", made)
			require.NoError(s.T, err)
			s.group(s.Namespace)
			s.catalogSource("catalog", operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: ref, Secrets: []string{"pull"},
				GrpcPodConfig: &operatorsv1alpha1.GrpcPodConfig{PriorityClassName: ptr.To("system-node-critical"), SecurityContextConfig: operatorsv1alpha1.Legacy}})
			s.subscribe()
			s.catalogSays("Such an image is a registry, and registries run only in the global catalog namespace")
			s.refused("its content is not available")
			pods, services := &corev1.PodList{}, &corev1.ServiceList{}
			s.list(pods)
			s.list(services)
			require.Empty(s.T, pods.Items)
			require.Empty(s.T, services.Items)
			require.True(s.T, apierrors.IsNotFound(s.Get("catalog", &corev1.ServiceAccount{})))
		}},
		{number: "90", title: "a catalog in a namespace whose catalogs the Subscription may not use", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			s.subscribe(func(spec *operatorsv1alpha1.SubscriptionSpec) {
				spec.CatalogSource, spec.CatalogSourceNamespace, spec.Package = "catalog", "healthy", "healthy-1"
			})
			s.refused("is not visible from namespace")
		}},
		{number: "403", title: "the deprecation messages and the default channel of a neighbor's catalog", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			theirs := s.other("theirs")
			const private = "a-message-of-a-private-catalog"
			content := forge.Catalog(bundleOf(csv())) + fmt.Sprintf(`{"schema": "olm.deprecations", "package": %[1]q, "entries": [
				{"reference": {"schema": "olm.package"}, "message": %[2]q}, {"reference": {"schema": "olm.channel", "name": %[3]q}, "message": %[2]q}]}`,
				probe, private, forge.Channel)
			layer, err := registry.Layer(fstest.MapFS{"catalog.yaml": {Data: []byte(content)}}, "configs")
			require.NoError(s.T, err)
			s.catalogSourceOf(theirs, "catalog", pushed(s, theirs.Namespace, layer))
			requireReady(theirs, "catalog")
			s.subscribe(func(spec *operatorsv1alpha1.SubscriptionSpec) {
				spec.CatalogSourceNamespace, spec.Channel = theirs.Namespace, ""
			})
			s.refused("is not visible from namespace")
			s.settle()
			for _, c := range s.Subscription(s.T).Status.Conditions {
				require.NotContains(s.T, string(c.Type), "Deprecated")
				require.NotContains(s.T, c.Message, private)
			}
		}},
		{number: "90a", title: "a ConfigMap of another namespace as a catalog", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			s.catalogSource("catalog", operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "../kube-system/y"})
			s.subscribe()
			s.catalogSays("config map")
			s.refused("its content is not available")
		}},
		{number: "91g", title: "a catalog at the machine's loopback address", holds: p0(), play: func(s *scene) {
			listener, err := (&net.ListenConfig{}).Listen(s.T.Context(), "tcp", "127.0.0.1:0")
			require.NoError(s.T, err)
			defer func() { _ = listener.Close() }()
			var dialed atomic.Int32
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					dialed.Add(1)
					_ = conn.Close()
				}
			}()
			s.unreachable(listener.Addr().String())
			s.settle()
			require.Zero(s.T, dialed.Load())
		}},
		{number: "91h", title: "a catalog at a Service that refers to an external name", holds: p0(), play: func(s *scene) {
			s.Create(externalService(s))
			s.unreachable(fmt.Sprintf("elsewhere.%s.svc:443", s.Namespace), "outside the cluster")
		}},
		{number: "91i", title: "a catalog at a Service that is changed to refer to an external name", holds: p0(), play: func(s *scene) {
			where := s.Serve("elsewhere", &hostileRegistry{send: []*api.Bundle{entry("a", "")}})
			s.group(s.Namespace)
			s.catalogSource("catalog", operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: where})
			s.Eventually(func(c *assert.CollectT) {
				cs := &operatorsv1alpha1.CatalogSource{}
				assert.NoError(c, s.Get("catalog", cs))
				if assert.NotNil(c, cs.Status.GRPCConnectionState) {
					assert.Equal(c, "READY", cs.Status.GRPCConnectionState.LastObservedState)
				}
			})
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &corev1.Service{ObjectMeta: s.Meta("elsewhere")}))
			s.Create(externalService(s))
			s.catalogSays("outside the cluster")
		}},
	}
	for i, where := range []string{"169.254.169.254:80", "kubernetes.default.svc:443", "10.96.0.1:443", "unix:///var/run/secrets/token",
		"passthrough:///kubernetes.default.svc:443", "catalog." + neighbor + ".svc:50051", "localhost:50051"} {
		rows = append(rows, row{number: "91" + letter(i), title: "a catalog at " + where, holds: p0(), play: func(s *scene) { s.unreachable(where) }})
	}
	for i, r := range []struct {
		title string
		send  func() []*api.Bundle // a function, because some are too large to create in every run
		words []string
	}{
		{"a bundle whose name has a slash", sends(entry("../../etc", "")), []string{"slash"}},
		{"bundles that replace each other", sends(entry("a", "b"), entry("b", "a")), nil},
		{"a name that is too long", sends(entry(strings.Repeat("n", 300), "")), []string{"at most 253 are allowed"}},
		{"a name with control characters", sends(entry("a\x1b[31m", "")), []string{"control character"}},
		{"one message that is too large", large, []string{"larger than max"}},
		{"more skips than any real bundle has", manySkips, []string{"more than 100000 fields"}},
		{"1,000,000 bundles", millionBundles, []string{"at most 64 MiB are allowed"}},
		{"text that is not UTF-8", sends(entry("a\xff\xfe", "")), []string{"UTF-8"}},
		{"4 GB", nil, []string{"bytes"}},
		{"nothing and never ends the stream", nil, nil},
	} {
		rows = append(rows, row{number: "92" + letter(i), title: "a registry that sends " + r.title, holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			registry := &hostileRegistry{endless: r.title == "4 GB", silent: r.title == "nothing and never ends the stream"}
			if r.send != nil {
				registry.send = r.send()
			}
			where := s.Serve("registry", registry)
			s.catalogSource("catalog", operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: where})
			s.subscribe()
			if r.send == nil && r.words == nil {
				s.refused("its content is not available")
				return
			}
			if r.words != nil {
				s.catalogSays(r.words...)
				s.refused("its content is not available")
				return
			}
			s.refused("no head")
		}})
	}
	return rows
}

// catalogSource creates a CatalogSource as a tenant.
func (s *scene) catalogSource(name string, spec operatorsv1alpha1.CatalogSourceSpec) {
	s.T.Helper()
	require.NoError(s.T, s.mallory().Create(s.T.Context(), &operatorsv1alpha1.CatalogSource{ObjectMeta: s.Meta(name), Spec: spec}))
}

// hostileRegistry is a registry that sends arbitrary content.
type hostileRegistry struct {
	api.UnimplementedRegistryServer
	send []*api.Bundle
	// If endless is set, it sends large bundles forever. If silent is set, it sends nothing and never ends the stream.
	endless, silent bool
}

func entry(name, replaces string) *api.Bundle {
	return &api.Bundle{PackageName: probe, ChannelName: forge.Channel, CsvName: name, Version: "1.0.0", Replaces: replaces,
		Properties: []*api.Property{{Type: "olm.package", Value: fmt.Sprintf(`{"packageName":%q,"version":"1.0.0"}`, probe)}}}
}

func sends(bundles ...*api.Bundle) func() []*api.Bundle {
	return func() []*api.Bundle { return bundles }
}

func large() []*api.Bundle {
	b := entry("large", "")
	b.CsvJson = strings.Repeat("x", 100<<20)
	return []*api.Bundle{b}
}

func manySkips() []*api.Bundle {
	var out []*api.Bundle
	for n := range 50 {
		b := entry(fmt.Sprintf("b%d", n), "")
		b.Skips = make([]string, 100_000)
		out = append(out, b)
	}
	return out
}

func millionBundles() []*api.Bundle {
	out := make([]*api.Bundle, 0, 1_000_000)
	for n := range cap(out) {
		out = append(out, &api.Bundle{PackageName: probe, ChannelName: forge.Channel, CsvName: fmt.Sprintf("b%d", n), Version: "1.0.0"})
	}
	return out
}

// ListBundles implements api.RegistryServer.
func (r *hostileRegistry) ListBundles(_ *api.ListBundlesRequest, stream api.Registry_ListBundlesServer) error {
	for _, b := range r.send {
		if err := stream.Send(b); err != nil {
			return err
		}
	}
	for n := 0; r.endless; n++ {
		b := entry(fmt.Sprintf("b%d", n), "")
		b.CsvJson = strings.Repeat("x", 4<<20)
		if err := stream.Send(b); err != nil {
			return err
		}
	}
	if r.silent {
		<-stream.Context().Done()
	}
	return nil
}

// GetPackage implements api.RegistryServer.
func (r *hostileRegistry) GetPackage(_ context.Context, in *api.GetPackageRequest) (*api.Package, error) {
	return &api.Package{Name: in.GetName(), DefaultChannelName: forge.Channel}, nil
}
