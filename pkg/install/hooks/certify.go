package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// Installer applies a plan as the account.
type Installer struct {
	// Account is a client authenticated as the account. It performs all writes and reads Secrets.
	Account client.Client
	// Policy configures how certificates are issued.
	Policy cert.Policy
	Now    time.Time
	// Memory may be shared between Installers. Its content is lost when the program exits.
	Memory *Memory
}

// Certificate is the state of a Deployment's certificate.
type Certificate struct {
	Deployment string
	// Hash is the CA hash that the Deployment's Pods must have as an annotation; "" if a certificate tool issues the
	// certificates.
	Hash string
	// Secret is the resource version of the Secret as it was read; "" if it did not exist.
	Secret string
	// Times are zero if there is no certificate or a tool issues it.
	cert.Times
	// After is the delay until the next check if no event triggers one earlier; zero means that none is scheduled.
	After time.Duration
	// Done is the action that was executed, or Keep if there was none. Reason is the reason why an action was due, whether
	// or not it was executed.
	Done   cert.Action
	Reason cert.Reason
	// Blocked is the reason why the account is not allowed to rotate the certificate, or nil if it is allowed to. While it
	// is set, no action is executed.
	Blocked error
}

// Certify applies a Deployment's Service and certificate, and executes the next step of a rotation if one is due.
// Before it writes anything, it calls permit to check whether the account is allowed to perform the writes of a
// rotation, even if no step is due. An error from permit is stored in Blocked and not returned. If a certificate tool
// issues the certificate, Certify applies only the Service and does not call permit. Errors from reads and writes are
// returned.
func (i Installer) Certify(ctx context.Context, p *Plan, live *Live, d serving.Deployment, permit func(...Need) error) (Certificate, error) {
	if p.tool != nil {
		return Certificate{Deployment: d.Name, Done: cert.Keep}, i.service(ctx, p, live, d, nil)
	}
	secret, err := i.secret(ctx, p, d.Name)
	if err != nil {
		return Certificate{Deployment: d.Name, Hash: live.Running(d.Name)}, err
	}
	o, decision, err := i.decide(ctx, p, live, d, secret)
	if err != nil {
		return Certificate{Deployment: d.Name, Hash: live.Running(d.Name)}, err
	}
	c := Certificate{Deployment: d.Name, Done: decision.Action, Reason: decision.Reason, Times: decision.Times, After: decision.After, Secret: versionOf(secret)}
	if c.Blocked = permit(p.writes(live, d)...); c.Blocked != nil && decision.Action != cert.Keep {
		c.Done, c.After = cert.Keep, 0
		return i.unchanged(c, p, live, decision)
	}
	set, err := i.Policy.Carry(decision, o)
	if err != nil {
		return c, err
	}
	// Keep the pair in memory, so that a retry after a failed write uses it again instead of issuing another one.
	i.Memory.keep(p.served(d.Name), issued(decision.Action, set))
	if err := i.serve(ctx, p, live, d, set, slices.Concat(set.Hashes(), decision.Set.Hashes())); err != nil {
		return c, err
	}
	// A Secret that is still owned by the previous version would be deleted with that version.
	if decision.Action != cert.Keep || c.Blocked == nil && !deployment.OwnedBy(secret, p.in.Owner.UID) {
		if err := i.store(ctx, p, d, secret, set); err != nil {
			return c, err
		}
		i.Memory.keep(p.served(d.Name), nil)
	}
	if decision.Action != cert.Keep {
		// The next step is decided once the cache contains the changes.
		c.After = time.Second
		c.Times = i.Policy.Times(set.Current)
	}
	c.Hash = set.Hash()
	p.certified(d.Name, set)
	return c, nil
}

// versionOf returns the resource version of a Secret; "" if there is none.
func versionOf(secret *corev1.Secret) string {
	if secret == nil {
		return ""
	}
	return secret.ResourceVersion
}

func (i Installer) decide(ctx context.Context, p *Plan, live *Live, d serving.Deployment, secret *corev1.Secret) (cert.Observed, cert.Decision, error) {
	o := i.observe(p, live, d, secret)
	decision := i.Policy.Decide(o)
	if decision.Action == cert.Keep {
		return o, decision, nil
	}
	// The cache may be outdated. Read the Service again, so that no second pair is issued right after the first.
	if err := i.refresh(ctx, p, live, d.Name); err != nil {
		return o, decision, err
	}
	o = i.observe(p, live, d, secret)
	return o, i.Policy.Decide(o), nil
}

// issued returns the pair that an action has issued, or nil.
func issued(action cert.Action, set cert.Set) *cert.Pair {
	switch action {
	case cert.Replace:
		return &set.Current
	case cert.Stage:
		return set.Next
	}
	return nil
}

// unchanged completes c with the existing set instead of executing an action. If there is no usable certificate,
// c.Hash is the hash that the Pods already have.
func (i Installer) unchanged(c Certificate, p *Plan, live *Live, d cert.Decision) (Certificate, error) {
	if d.Set.IsZero() {
		c.Hash = live.Running(c.Deployment)
		return c, nil
	}
	c.Hash = d.Set.Hash()
	p.certified(c.Deployment, d.Set)
	return c, nil
}

// serve writes the Service and then the caBundles, in the order that cert.Policy.Carry documents. They must be written
// before the Secret.
func (i Installer) serve(ctx context.Context, p *Plan, live *Live, d serving.Deployment, set cert.Set, recorded []string) error {
	if err := i.service(ctx, p, live, d, recorded); err != nil {
		return err
	}
	return i.trust(ctx, p, live, d.Name, set.Trust())
}

// store writes the Secret. An existing Secret is patched rather than applied, with its UID and resource version as
// preconditions. The patch reverts manual edits, which server-side apply could do only by force.
func (i Installer) store(ctx context.Context, p *Plan, d serving.Deployment, have *corev1.Secret, set cert.Set) error {
	want, err := p.serving().Secret(d, set)
	if err != nil {
		return err
	}
	if have == nil {
		_, _, err := apply.Ensure(ctx, i.Account, want, p.in.Owner)
		return err
	}
	data, _, err := unstructured.NestedMap(want.Object, "data")
	if err != nil {
		return fmt.Errorf("data of Secret %s: %w", client.ObjectKeyFromObject(have), err)
	}
	for key := range have.Data {
		if _, kept := data[key]; !kept {
			data[key] = nil
		}
	}
	raw, err := json.Marshal(map[string]any{"data": data, "metadata": map[string]any{
		"uid": have.UID, "resourceVersion": have.ResourceVersion,
		"labels": want.GetLabels(), "annotations": want.GetAnnotations(), "ownerReferences": want.GetOwnerReferences(),
	}})
	if err != nil {
		return fmt.Errorf("encode Secret %s", client.ObjectKeyFromObject(have))
	}
	if err := i.Account.Patch(ctx, have.DeepCopy(), client.RawPatch(types.MergePatchType, raw), client.FieldOwner(names.FieldManager)); err != nil {
		return fmt.Errorf("patch Secret %s: %w", client.ObjectKeyFromObject(have), err)
	}
	return nil
}

// service applies the Service unless it is in the desired state according to the cache.
func (i Installer) service(ctx context.Context, p *Plan, live *Live, d serving.Deployment, recorded []string) error {
	want, err := p.serving().Service(d, slices.Compact(slices.Sorted(slices.Values(recorded))))
	if err != nil {
		return err
	}
	if have := live.services[d.Name]; have != nil && deployment.InPlace(have, want, p.in.Owner) {
		return nil
	}
	_, _, err = apply.Ensure(ctx, i.Account, want, p.in.Owner)
	return err
}

// secret reads a Deployment's Secret as the account, because the controller identity is not allowed to read it. It
// returns nil if the Secret does not exist.
func (i Installer) secret(ctx context.Context, p *Plan, name string) (*corev1.Secret, error) {
	key := types.NamespacedName{Namespace: p.in.Owner.Namespace, Name: cert.SecretName(name)}
	secret := &corev1.Secret{}
	if exists, err := apply.Read(ctx, i.Account, key, secret); err != nil || !exists {
		return nil, err
	}
	if why := p.in.Owner.Check(secret); why != nil {
		return nil, apply.NewCollision(secret, why)
	}
	return secret, nil
}

func (i Installer) observe(p *Plan, live *Live, d serving.Deployment, secret *corev1.Secret) cert.Observed {
	o := cert.Observed{
		Now: i.Now, Hosts: cert.Hosts(d.Name, p.in.Owner.Namespace), Bundles: live.bundles(p, d.Name), Unstored: i.Memory.unstored.Get(p.served(d.Name)),
	}
	if service := live.services[d.Name]; service != nil && p.in.Owner.Owns(service) {
		o.Recorded = serving.Recorded(service)
	}
	pods, hash := live.deployments[d.Name], live.Running(d.Name)
	if hash != "" && p.in.Owner.Owns(pods) {
		o.Recorded = append(o.Recorded, hash)
	}
	if secret == nil {
		return o
	}
	o.Data = secret.Data
	if o.Data == nil {
		o.Data = map[string][]byte{}
	}
	// Pods that OLM v0 created, and that were adopted, still use its CA until they are rolled.
	if ca := o.Data[cert.KeyCA]; pods != nil && p.in.Owner.Owns(pods) && hash == cert.TextHash(ca) {
		o.Recorded = append(o.Recorded, cert.Hash(ca))
	}
	o.Running = pods != nil && hash == cert.Hash(o.Data[cert.KeyCA]) && deployment.Status(pods, pods.Spec.Replicas).Ready
	o.TrustedFor = i.Memory.trustedFor(secret.UID, cert.NextHash(o.Data), o.Bundles, i.Now)
	return o
}

// refresh updates the Service in live with a direct read from the API server.
func (i Installer) refresh(ctx context.Context, p *Plan, live *Live, name string) error {
	service := &corev1.Service{}
	exists, err := apply.Read(ctx, i.Account, p.service(name), service)
	if err != nil {
		return err
	}
	delete(live.services, name)
	if exists {
		live.services[name] = service
	}
	return nil
}

// Rolling reports whether a Deployment's Pods were created for a CA other than that of its certificate.
func (l *Live) Rolling(c Certificate) bool {
	hash := l.Running(c.Deployment)
	return hash != "" && c.Hash != "" && hash != c.Hash
}

// Running returns the hash of the CA that a Deployment's Pods were created for, or "" if none is recorded.
func (l *Live) Running(deployment string) string {
	if d := l.deployments[deployment]; d != nil {
		return d.Spec.Template.Annotations[names.AnnotationCAHash]
	}
	return ""
}

// Current reports whether a Deployment belongs to the plan's version and not to an earlier one.
func (l *Live) Current(p *Plan, name string) bool {
	d := l.deployments[name]
	return d != nil && deployment.OwnedBy(d, p.in.Owner.UID)
}

// writes returns the permissions that the account needs for the steps of a rotation.
func (p *Plan) writes(live *Live, d serving.Deployment) []Need {
	namespace := p.in.Owner.Namespace
	objs := []*unstructured.Unstructured{
		apply.Reference(corev1.SchemeGroupVersion.WithKind("Service"), namespace, cert.ServiceName(d.Name)),
		apply.Reference(corev1.SchemeGroupVersion.WithKind("Secret"), namespace, cert.SecretName(d.Name)),
		p.deployment(d.Name),
	}
	for _, obj := range live.callers(p, d.Name) {
		objs = append(objs, reference(obj))
	}
	var needs []Need
	for _, obj := range objs {
		needs = append(needs, Request(obj, "rotate the certificate of deployment "+d.Name, apply.Verbs()...))
	}
	for _, crd := range live.converted(p, d.Name) {
		needs = append(needs, Conversion(crd.Name))
	}
	return needs
}

// trust sets the caBundle on the webhook configurations, APIServices and CustomResourceDefinitions that already refer
// to the Deployment.
func (i Installer) trust(ctx context.Context, p *Plan, live *Live, name string, bundle []byte) error {
	for _, obj := range live.callers(p, name) {
		if !distrusts(obj, p.service(name), bundle) {
			continue
		}
		if err := i.retrust(ctx, p, obj, name, bundle); err != nil {
			return err
		}
	}
	for _, crd := range live.converted(p, name) {
		if string(webhook.Bundle(crd)) == string(bundle) {
			continue
		}
		patch, err := webhook.Retrust(crd, bundle)
		if err != nil {
			return err
		}
		if err := i.patch(ctx, live, crd, patch); err != nil {
			return err
		}
	}
	return nil
}

// patch patches a CustomResourceDefinition and stores the result in live for later steps.
func (i Installer) patch(ctx context.Context, live *Live, crd *apiextensionsv1.CustomResourceDefinition, patch client.Patch) error {
	patched := crd.DeepCopy()
	if err := i.Account.Patch(ctx, patched, patch, client.FieldOwner(names.FieldManager)); err != nil {
		return fmt.Errorf("patch CustomResourceDefinition %q: %w", crd.Name, err)
	}
	for k := range live.crds {
		if live.crds[k].Name == crd.Name {
			live.crds[k] = patched
		}
	}
	return nil
}

func distrusts(obj client.Object, service types.NamespacedName, bundle []byte) bool {
	return slices.ContainsFunc(calls(obj), func(c call) bool { return c.service == service && string(c.bundle) != string(bundle) })
}

// Memory records when all callers began to trust a staged pair, and pairs that were issued but could not be stored. If
// its content is lost, the waiting time starts again and the unstored pairs are replaced by new ones.
type Memory struct {
	since    keyed.Map[types.UID, noted]
	unstored keyed.Map[served, *cert.Pair]
}

// served identifies a Deployment of a ClusterServiceVersion.
type served struct {
	csv        types.NamespacedName
	deployment string
}

func (p *Plan) served(deployment string) served {
	return served{types.NamespacedName{Namespace: p.in.Owner.Namespace, Name: p.in.Owner.CSV}, deployment}
}

// keep records a pair that is not stored yet; nil removes the record.
func (m *Memory) keep(of served, pair *cert.Pair) {
	if pair == nil {
		m.unstored.Delete(of)
		return
	}
	m.unstored.Set(of, pair)
}

// Forget drops the unstored pairs of a deleted ClusterServiceVersion.
func (m *Memory) Forget(csv types.NamespacedName) {
	m.unstored.DeleteFunc(func(of served) bool { return of.csv == csv })
}

type noted struct {
	hash string
	at   time.Time
}

func (m *Memory) trustedFor(secret types.UID, next string, bundles [][]byte, now time.Time) time.Duration {
	if next == "" || slices.ContainsFunc(bundles, func(b []byte) bool { return !cert.TrustsHash(b, next) }) {
		m.since.Delete(secret)
		return 0
	}
	return now.Sub(m.since.Change(secret, func(is *noted) {
		if is.hash != next {
			*is = noted{next, now}
		}
	}).at)
}
