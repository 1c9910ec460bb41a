package serving

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/webhook"
)

// defaultPort is the contract's default port for APIs and webhooks.
const defaultPort = 443

// Deployment is a Deployment that serves webhooks or APIs.
type Deployment struct {
	Name string
	// Ports are the ports of the Service, sorted.
	Ports []Port
	// APIs is true if the Deployment serves at least one API.
	APIs bool
}

// Port maps a port of a Service to a port of its Pods.
type Port struct {
	Port   int32
	Target intstr.IntOrString
}

// servedPort is a port of the Deployment with a name.
type servedPort struct {
	deployment string
	port       Port
}

// Served returns the Deployments that serve webhooks or APIs, in the order of the CSV's install strategy.
func Served(csv *operatorsv1alpha1.ClusterServiceVersion) []Deployment {
	by, known := map[string]*Deployment{}, map[servedPort]bool{}
	add := func(name string, port int32, target *intstr.IntOrString) *Deployment {
		if by[name] == nil {
			by[name] = &Deployment{Name: name}
		}
		port = cmp.Or(port, defaultPort)
		p := Port{Port: port, Target: ptr.Deref(target, intstr.FromInt32(port))}
		if key := (servedPort{name, p}); !known[key] {
			known[key] = true
			by[name].Ports = append(by[name].Ports, p)
		}
		return by[name]
	}
	for i := range csv.Spec.WebhookDefinitions {
		d := &csv.Spec.WebhookDefinitions[i]
		add(d.DeploymentName, d.ContainerPort, webhook.Target(d))
	}
	for i := range csv.Spec.APIServiceDefinitions.Owned {
		d := &csv.Spec.APIServiceDefinitions.Owned[i]
		add(d.DeploymentName, d.ContainerPort, nil).APIs = true
	}
	var out []Deployment
	for _, spec := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		if d := by[spec.Name]; d != nil {
			slices.SortFunc(d.Ports, func(a, b Port) int {
				return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Target.String(), b.Target.String()))
			})
			out = append(out, *d)
		}
	}
	return out
}

// Validate returns the errors that make a CSV's Deployments unreachable: two Deployments share a Service, a Service
// port has two targets, or a Deployment's Pods have no labels by which to select them. Only the CSV's author can fix
// them.
func Validate(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	var errs []error
	services := map[string]string{}
	for _, d := range Served(csv) {
		name := cert.ServiceName(d.Name)
		if other, taken := services[name]; taken {
			errs = append(errs, fmt.Errorf("deployments %q and %q would share Service %q", other, d.Name, name))
		}
		services[name] = d.Name
		for i := 1; i < len(d.Ports); i++ {
			if a, b := d.Ports[i-1], d.Ports[i]; a.Port == b.Port {
				errs = append(errs, fmt.Errorf("port %d of deployment %q has two targets, %s and %s", a.Port, d.Name, a.Target.String(), b.Target.String()))
			}
		}
		if len(selectorOf(csv, d.Name)) == 0 {
			errs = append(errs, fmt.Errorf("deployment %q has no labels by which a Service can select its Pods", d.Name))
		}
	}
	return errors.Join(errs...)
}

// selectorOf returns the labels that select a Deployment's Pods: the matchLabels of its selector or, if there are
// none, all labels of its Pods.
func selectorOf(csv *operatorsv1alpha1.ClusterServiceVersion, name string) map[string]string {
	spec := deployment.SpecOf(csv, name)
	switch {
	case spec == nil:
		return nil
	case spec.Spec.Selector != nil && len(spec.Spec.Selector.MatchLabels) > 0:
		return spec.Spec.Selector.MatchLabels
	}
	return spec.Spec.Template.Labels
}

func servicePorts(ports []Port) []corev1.ServicePort {
	out := make([]corev1.ServicePort, 0, len(ports))
	for _, p := range ports {
		out = append(out, corev1.ServicePort{Name: fmt.Sprint(p.Port), Port: p.Port, TargetPort: p.Target, Protocol: corev1.ProtocolTCP})
	}
	return out
}
