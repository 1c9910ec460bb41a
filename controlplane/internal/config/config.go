// Package config reads the Secrets and ConfigMaps that Pods refer to.
//
// It reads from the API server and not from a cache: a Pod that was created right after its Secret must see the latest
// content of that Secret. Informers only indicate when to read again.
package config

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Data is the content of a Secret or ConfigMap.
type Data map[string][]byte

// Missing reports an object or a key that a Pod needs and that does not exist, or does not exist yet.
type Missing struct{ Kind, Namespace, Name, Key string }

// Error uses the wording of the kubelet, which users know from `kubectl describe`.
func (m *Missing) Error() string {
	if m.Key != "" {
		return fmt.Sprintf("couldn't find key %s in %s %s/%s", m.Key, m.Kind, m.Namespace, m.Name)
	}
	return fmt.Sprintf("%s %q not found", m.Kind, m.Name)
}

// Reader reads Secrets and ConfigMaps in one namespace.
type Reader struct {
	Client    kubernetes.Interface
	Namespace string
}

// Secret returns the content of a Secret, or nil if the Secret is optional and does not exist.
func (r Reader) Secret(ctx context.Context, name string, optional *bool) (Data, error) {
	s, err := r.Client.CoreV1().Secrets(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, r.missing(err, "secret", name, optional)
	}
	return Data(s.Data), nil
}

// ConfigMap returns the content of a ConfigMap, including binaryData, or nil if the ConfigMap is optional and does not
// exist.
func (r Reader) ConfigMap(ctx context.Context, name string, optional *bool) (Data, error) {
	m, err := r.Client.CoreV1().ConfigMaps(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, r.missing(err, "configmap", name, optional)
	}
	data := Data{}
	for k, v := range m.Data {
		data[k] = []byte(v)
	}
	for k, v := range m.BinaryData {
		data[k] = v
	}
	return data, nil
}

func (r Reader) missing(err error, kind, name string, optional *bool) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read %s %q: %w", kind, name, err)
	}
	if IsTrue(optional) {
		return nil
	}
	return &Missing{Kind: kind, Namespace: r.Namespace, Name: name}
}

// IsTrue reports whether an optional boolean is set and true.
func IsTrue(b *bool) bool { return b != nil && *b }
