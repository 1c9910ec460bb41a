package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
)

func toUnstructured(t *testing.T, greeting *samplev1.Greeting) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(greeting)
	require.NoError(t, err)
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(samplev1.GroupVersion.WithKind("Greeting"))
	return u
}

func greetingOf(t assert.TestingT, u *unstructured.Unstructured) *samplev1.Greeting {
	greeting := &samplev1.Greeting{}
	assert.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, greeting))
	return greeting
}

func attributes(namespace, verb, group, resource string) *authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(resource, "/")
	return &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource,
	}
}
