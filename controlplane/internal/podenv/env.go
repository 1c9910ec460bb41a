// Package podenv computes the environment and the arguments of a container as the API describes them: envFrom, env with valueFrom,
// and $(VAR) references.
package podenv

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/remit-olm/remit/controlplane/internal/config"
)

// Facts contains the state of the Pod and its node to which the environment can refer.
type Facts struct {
	Pod         *corev1.Pod
	PodIP       string
	HostIP      string
	Allocatable corev1.ResourceList // used for resource limits that are not set
}

// Env is an environment: names are unique, later settings override earlier ones.
type Env map[string]string

// Strings returns the variables, sorted and in the form NAME=VALUE.
func (e Env) Strings() []string {
	out := make([]string, 0, len(e))
	for _, name := range slices.Sorted(maps.Keys(e)) {
		out = append(out, name+"="+e[name])
	}
	return out
}

// Expand replaces $(NAME) with the variable's value. It keeps unknown references, and replaces $$ with a dollar sign.
func (e Env) Expand(text string) string { return expansion.Expand(text, expansion.MappingFuncFor(e)) }

// Build returns the base environment with the container's own variables added. A reference can name a variable from
// either.
func Build(ctx context.Context, base Env, r config.Reader, f Facts, c *corev1.Container) (Env, error) {
	env := maps.Clone(base)
	for _, from := range c.EnvFrom {
		data, err := readAll(ctx, r, from)
		if err != nil {
			return nil, err
		}
		for k, v := range data {
			env[from.Prefix+k] = string(v)
		}
	}
	for _, v := range c.Env {
		value, set, err := valueOf(ctx, env, r, f, c, v)
		if err != nil {
			return nil, err
		}
		if set {
			env[v.Name] = value
		}
	}
	return env, nil
}

// Args returns the arguments of the executable that replaces the image. The executable is the entrypoint, so the
// first word of a command is dropped and the rest precedes the args.
func Args(env Env, c *corev1.Container) []string {
	words := c.Args
	if len(c.Command) > 0 {
		words = slices.Concat(c.Command[1:], c.Args)
	}
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, env.Expand(w))
	}
	return out
}

func readAll(ctx context.Context, r config.Reader, from corev1.EnvFromSource) (config.Data, error) {
	switch {
	case from.ConfigMapRef != nil:
		return r.ConfigMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		return r.Secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
	}
	return nil, nil
}

// valueOf computes the value of one variable. An optional reference to a missing object leaves the variable unset.
func valueOf(
	ctx context.Context, env Env, r config.Reader, f Facts, c *corev1.Container, v corev1.EnvVar,
) (value string, set bool, err error) {
	from := v.ValueFrom
	switch {
	case from == nil:
		return env.Expand(v.Value), true, nil
	case from.FieldRef != nil:
		value, err = Field(f, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = Resource(f, from.ResourceFieldRef, c.Name)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := r.ConfigMap(ctx, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		return key(data, ref.Key, ref.Optional, &config.Missing{Kind: "ConfigMap", Namespace: r.Namespace, Name: ref.Name, Key: ref.Key})
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := r.Secret(ctx, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		return key(data, ref.Key, ref.Optional, &config.Missing{Kind: "Secret", Namespace: r.Namespace, Name: ref.Name, Key: ref.Key})
	}
	return "", false, fmt.Errorf("variable %s: unsupported source", v.Name)
}

func key(data config.Data, name string, optional *bool, missing *config.Missing) (string, bool, error) {
	value, ok := data[name]
	if !ok && !config.IsTrue(optional) {
		return "", false, missing
	}
	return string(value), ok, nil
}

// Field resolves a fieldRef.
func Field(f Facts, path string) (string, error) {
	switch path {
	case "spec.nodeName":
		return f.Pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return f.Pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return f.PodIP, nil
	case "status.hostIP", "status.hostIPs":
		return f.HostIP, nil
	}
	return fieldpath.ExtractFieldPathAsString(f.Pod, path)
}

// Resource resolves a resourceFieldRef. A reference without a container name refers to the given container. Limits that are not
// set default to the node's allocatable resources, as in Kubernetes.
func Resource(f Facts, ref *corev1.ResourceFieldSelector, container string) (string, error) {
	if ref.ContainerName != "" {
		container = ref.ContainerName
	}
	return resource.ExtractResourceValueByContainerNameAndNodeAllocatable(ref, f.Pod, container, f.Allocatable)
}
