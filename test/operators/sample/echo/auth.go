package echo

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// authentication is the ConfigMap with the CA and header names that extension API servers trust.
var authentication = types.NamespacedName{Namespace: "kube-system", Name: "extension-apiserver-authentication"}

// user is the user on whose behalf the front proxy sent a request.
type user struct {
	name   string
	groups []string
}

// proxied returns the user of a request, or an error if the front proxy did not send it.
func (s *Server) proxied(r *http.Request) (user, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return user{}, errors.New("no client certificate")
	}
	config := &corev1.ConfigMap{}
	if err := s.Reader.Get(r.Context(), authentication, config); err != nil {
		return user{}, fmt.Errorf("read the front proxy's configuration: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(config.Data["requestheader-client-ca-file"]))
	leaf := r.TLS.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return user{}, fmt.Errorf("verify the front proxy's certificate: %w", err)
	}
	var allowed, nameHeaders, groupHeaders []string
	for key, into := range map[string]*[]string{
		"requestheader-allowed-names": &allowed, "requestheader-username-headers": &nameHeaders, "requestheader-group-headers": &groupHeaders,
	} {
		if err := json.Unmarshal([]byte(config.Data[key]), into); err != nil {
			return user{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(allowed) > 0 && !slices.Contains(allowed, leaf.Subject.CommonName) {
		return user{}, fmt.Errorf("%q is not the front proxy", leaf.Subject.CommonName)
	}
	var u user
	for _, h := range nameHeaders {
		u.name = r.Header.Get(h)
	}
	for _, h := range groupHeaders {
		u.groups = append(u.groups, r.Header.Values(h)...)
	}
	if u.name == "" {
		return user{}, errors.New("the front proxy did not name a user")
	}
	return u, nil
}

// may reports whether the API server allows the user to perform the verb on an Echo.
func (s *Server) may(ctx context.Context, u user, verb, namespace, name string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: u.name, Groups: u.groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: Group, Version: Version, Resource: Resource, Verb: verb, Namespace: namespace, Name: name,
		},
	}}
	err := s.Client.Create(ctx, review, &client.CreateOptions{})
	return review.Status.Allowed, err
}
