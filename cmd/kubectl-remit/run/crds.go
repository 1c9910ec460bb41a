package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// thirdParty is a kind that bundles often contain or require and that the demonstration's cluster does not serve by default.
type thirdParty struct {
	group, kind, plural string
	cluster             bool
	// versions are the served versions. The last one is the storage version.
	versions []string
}

// wellKnown returns the kinds that --with-crds installs. Their CustomResourceDefinitions accept any object, and no
// controller acts on the objects.
func wellKnown() []thirdParty {
	const monitoring, certManager, console = "monitoring.coreos.com", "cert-manager.io", "console.openshift.io"
	v1 := []string{"v1"}
	return []thirdParty{
		{monitoring, "Alertmanager", "alertmanagers", false, v1},
		{monitoring, "AlertmanagerConfig", "alertmanagerconfigs", false, []string{"v1beta1", "v1alpha1"}},
		{monitoring, "PodMonitor", "podmonitors", false, v1},
		{monitoring, "Probe", "probes", false, v1},
		{monitoring, "Prometheus", "prometheuses", false, v1},
		{monitoring, "PrometheusRule", "prometheusrules", false, v1},
		{monitoring, "ScrapeConfig", "scrapeconfigs", false, []string{"v1alpha1"}},
		{monitoring, "ServiceMonitor", "servicemonitors", false, v1},
		{monitoring, "ThanosRuler", "thanosrulers", false, v1},
		{certManager, "Certificate", "certificates", false, v1},
		{certManager, "CertificateRequest", "certificaterequests", false, v1},
		{certManager, "ClusterIssuer", "clusterissuers", true, v1},
		{certManager, "Issuer", "issuers", false, v1},
		{console, "ConsoleCLIDownload", "consoleclidownloads", true, v1},
		{console, "ConsoleLink", "consolelinks", true, v1},
		{console, "ConsolePlugin", "consoleplugins", true, []string{"v1alpha1", "v1"}},
		{console, "ConsoleQuickStart", "consolequickstarts", true, v1},
		{console, "ConsoleYAMLSample", "consoleyamlsamples", true, v1},
		{"autoscaling.k8s.io", "VerticalPodAutoscaler", "verticalpodautoscalers", false, v1},
		{"route.openshift.io", "Route", "routes", false, v1},
	}
}

// crd returns a minimal CustomResourceDefinition of the kind.
func (k thirdParty) crd() *apiextensionsv1.CustomResourceDefinition {
	out := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: k.plural + "." + k.group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: k.group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: k.kind, ListKind: k.kind + "List", Plural: k.plural, Singular: strings.ToLower(k.kind),
			},
		},
	}
	if k.cluster {
		out.Spec.Scope = apiextensionsv1.ClusterScoped
	}
	if strings.HasSuffix(k.group, ".k8s.io") {
		out.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, a stand-in for a demonstration"}
	}
	for i, version := range k.versions {
		out.Spec.Versions = append(out.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == len(k.versions)-1,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: ptr.To(true),
			}},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		})
	}
	return out
}

// namesWellKnown reports whether the message states that the cluster does not serve a kind that --with-crds installs.
func namesWellKnown(message string) bool {
	return slices.ContainsFunc(wellKnown(), func(k thirdParty) bool {
		return slices.ContainsFunc(k.versions, func(version string) bool {
			return strings.Contains(message, k.group+"/"+version+", Kind="+k.kind+" not found on the cluster")
		})
	})
}

// thirdParties creates the CustomResourceDefinitions for --with-crds and waits until they are established.
func (d *demo) thirdParties(ctx context.Context) error {
	return d.progress.step("Create well-known third-party CRDs: ServiceMonitor, PrometheusRule and others", func() error {
		for _, kind := range wellKnown() {
			if err := d.client.Create(ctx, kind.crd()); err != nil {
				return fmt.Errorf("create CustomResourceDefinition %s.%s: %w", kind.plural, kind.group, err)
			}
		}
		for _, kind := range wellKnown() {
			if err := d.until(ctx, func(ctx context.Context) error { return d.established(ctx, kind.crd()) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *demo) established(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	if err := d.client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
		return err
	}
	if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		return fmt.Errorf("CustomResourceDefinition %s is not established", crd.Name)
	}
	return nil
}
