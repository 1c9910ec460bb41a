package csv

import (
	"context"
	"fmt"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/warrant"
)

// secretCheckInterval is how often certificate Secrets are checked. Users may edit them, and the account may not be
// allowed to watch them.
const secretCheckInterval = 10 * time.Minute

// noteRotation is the prefix of notes about certificates that could not be rotated.
const noteRotation = "CertificateRotationBlocked: "

// certify issues or rotates the certificates of the operator's Deployments, and then renders the Deployments again with
// these certificates. It records a refusal in the facts instead of returning an error.
func (r *Reconciler) certify(ctx context.Context, s *scope) error {
	if s.hooks.Empty() {
		return nil
	}
	for _, d := range s.hooks.Served {
		c, err := r.certifyOne(ctx, s, d)
		if err != nil {
			return err
		}
		s.certificates = append(s.certificates, c)
		s.facts.Rolling = s.facts.Rolling || s.live.Rolling(c)
		s.wakeAfter(c.After)
		if !s.hooks.Outsourced() {
			s.wakeAfter(secretCheckInterval)
		}
		if c.Blocked != nil && !c.Expires.IsZero() {
			s.facts.Notes = append(s.facts.Notes, fmt.Sprintf("%sthe certificate of deployment %q, which expires on %s, cannot be rotated: %s",
				noteRotation, c.Deployment, c.Expires.UTC().Format(time.DateOnly), summary(c.Blocked)))
		}
	}
	return s.render()
}

func (r *Reconciler) certifyOne(ctx context.Context, s *scope, d serving.Deployment) (hooks.Certificate, error) {
	asItIs := hooks.Certificate{Deployment: d.Name, Hash: s.live.Running(d.Name), Done: cert.Keep}
	first := asItIs.Hash == ""
	account, barred := s.writer(warrant.Renew)
	if barred != nil {
		return asItIs, nil
	}
	c, err := r.installer(s, account).Certify(ctx, s.hooks, s.live, d, func(needs ...hooks.Need) error {
		return r.missingNow(ctx, s, forRotation+d.Name, needs)
	})
	if err != nil {
		return asItIs, s.notCertified(d.Name, first, err)
	}
	if c.Done != cert.Keep {
		log.FromContext(ctx).Info("Updated certificate", "deployment", d.Name, "action", c.Done, "reason", c.Reason, "expires", c.Expires)
	}
	if c.Done == cert.Keep { // otherwise the next reconcile reads what was written
		r.secrets.begin(client.ObjectKeyFromObject(s.csv), cert.SecretName(d.Name), c.Secret)
	}
	return c, nil
}

// notCertified records in the facts that a certificate was refused. Running Deployments are kept, and their
// replacements wait. notCertified returns all other errors.
func (s *scope) notCertified(deployment string, first bool, err error) error {
	if !isReported(err) {
		return err
	}
	s.uncertified = err
	s.facts.Notes = append(s.facts.Notes, summary(err))
	if first || !s.live.Current(s.hooks, deployment) {
		s.facts.Prepared = err
	}
	return nil
}

// render renders the Deployments with their certificates.
func (s *scope) render() error {
	hashes := map[string]string{}
	for _, c := range s.certificates {
		hashes[c.Deployment] = c.Hash
	}
	var err error
	s.deployments, err = s.desired(func(name string, pod *corev1.PodTemplateSpec) {
		if hash, served := hashes[name]; served {
			serving.Mount(pod, name, hash)
		}
	})
	return err
}

// certificateStatus sets the contract's status fields: when a certificate was last issued, and when the next rotation
// is due.
func (s *scope) certificateStatus(status *operatorsv1alpha1.ClusterServiceVersionStatus) {
	var issued, rotate time.Time
	for _, c := range s.certificates {
		if c.Issued.After(issued) {
			issued = c.Issued
		}
		if !c.RotateAt.IsZero() && (rotate.IsZero() || c.RotateAt.Before(rotate)) {
			rotate = c.RotateAt
		}
	}
	if !issued.IsZero() && !rotate.IsZero() {
		status.CertsLastUpdated, status.CertsRotateAt = &metav1.Time{Time: issued}, &metav1.Time{Time: rotate}
	}
	if s.hooks != nil && (s.hooks.Empty() || s.hooks.Outsourced()) {
		status.CertsLastUpdated, status.CertsRotateAt = nil, nil
	}
}
