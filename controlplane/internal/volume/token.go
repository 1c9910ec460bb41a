package volume

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type tokenKey struct {
	audience string
	seconds  int64
}

type token struct {
	text  string
	renew time.Time
}

// token returns a ServiceAccount token that is bound to the Pod and therefore becomes invalid when the Pod is deleted.
// Like the kubelet, it renews the token after four fifths of its lifetime, at the next Sync.
func (s *Set) token(ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection) (string, error) {
	key := tokenKey{audience: p.Audience}
	if p.ExpirationSeconds != nil {
		key.seconds = *p.ExpirationSeconds
	}
	if t, ok := s.tokens[key]; ok && time.Now().Before(t.renew) {
		return t.text, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: p.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	if p.Audience != "" {
		request.Spec.Audiences = []string{p.Audience}
	}
	account := pod.Spec.ServiceAccountName
	asked := time.Now()
	reply, err := s.reader.Client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request token for ServiceAccount %q: %w", account, err)
	}
	// The renewal time depends on the duration that the server reports, although the token may be valid for longer.
	life := reply.Status.ExpirationTimestamp.Sub(asked)
	s.tokens[key] = &token{text: reply.Status.Token, renew: asked.Add(life / 5 * 4)}
	return reply.Status.Token, nil
}
