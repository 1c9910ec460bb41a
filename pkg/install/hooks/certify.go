package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	"github.com/remit-olm/remit/pkg/lib/names"
)

// Installer makes a plan come true, as the account.
type Installer struct {
	// Account is authenticated as the account: it does all writes, and reads Secrets.
	Account client.Client
	// Policy is how certificates are issued.
	Policy cert.Policy
	Now    time.Time
	// Memory may be shared; it is lost with the program.
	Memory *Memory
}

// Certificate is how a Deployment's certificate stands.
type Certificate struct {
	Deployment string
	// Hash is what the Deployment's Pods are to carry; "" where a tool of the cluster issues certificates.
	Hash string
	// Times are zero where there is no certificate, or where it is a tool's.
	cert.Times
	// After is when to look again though nothing has happened; zero means never.
	After time.Duration
	// Done is what was done, and why; Keep where nothing was.
	Done   cert.Action
	Reason cert.Reason
	// Blocked says why a rotation would not be permitted at present. Due is an action that is due and was
	// not done for that.
	Blocked error
	Due     cert.Action
}

// Certify makes a Deployment's Service and certificate be as they should, and takes the next step of a
// rotation where one is due. permit says, before anything is written and long before anything is due, whether
// the account may write what that needs; its error becomes Blocked. The error of a write is returned.
func (i Installer) Certify(ctx context.Context, p *Plan, live *Live, d serving.Deployment, permit func(...*unstructured.Unstructured) error) (Certificate, error) {
	if p.tool != nil {
		return Certificate{Deployment: d.Name, Done: cert.Keep}, i.service(ctx, p, live, d, nil)
	}
	secret, err := i.secret(ctx, p, d.Name)
	if err != nil {
		return Certificate{Deployment: d.Name, Hash: running(live.deployments[d.Name])}, err
	}
	o := i.observe(p, live, d, secret)
	decision := i.Policy.Decide(o)
	if decision.Action != cert.Keep {
		// The cache may be behind, and what was just issued is not to be issued again.
		if err := i.refresh(ctx, p, live, d.Name); err != nil {
			return Certificate{Deployment: d.Name, Hash: running(live.deployments[d.Name])}, err
		}
		o = i.observe(p, live, d, secret)
		decision = i.Policy.Decide(o)
	}
	c := Certificate{Deployment: d.Name, Done: decision.Action, Reason: decision.Reason, Times: decision.Times, After: decision.After}
	if c.Blocked = permit(p.writes(live, d)...); c.Blocked != nil && decision.Action != cert.Keep {
		c.Done, c.Due, c.After = cert.Keep, decision.Action, 0
		return i.unchanged(c, p, live, decision)
	}
	set, err := i.Policy.Carry(decision, o)
	if err != nil {
		return c, err
	}
	recorded := set.Hashes()
	if decision.Action != cert.Keep {
		recorded = slices.Concat(recorded, decision.Set.Hashes())
	}
	if err := i.serve(ctx, p, live, d, set, recorded); err != nil {
		return c, err
	}
	if decision.Action != cert.Keep {
		if err := i.store(ctx, p, d, secret, set); err != nil {
			return c, err
		}
		// The next step is decided on what was written, once the cache shows it.
		c.After = time.Second
		c.Times = i.Policy.Times(set.Current)
	}
	c.Hash = set.Hash()
	p.sets[d.Name] = set
	return c, nil
}

// unchanged goes on with what there is. Without a usable certificate the Pods stay as they are.
func (i Installer) unchanged(c Certificate, p *Plan, live *Live, d cert.Decision) (Certificate, error) {
	if d.Set.IsZero() {
		c.Hash = running(live.deployments[c.Deployment])
		return c, nil
	}
	c.Hash = d.Set.Hash()
	p.sets[c.Deployment] = d.Set
	return c, nil
}

// serve writes, in the order that cert.Policy.Carry asks for, what comes before the Secret.
func (i Installer) serve(ctx context.Context, p *Plan, live *Live, d serving.Deployment, set cert.Set, recorded []string) error {
	if err := i.service(ctx, p, live, d, recorded); err != nil {
		return err
	}
	return i.trust(ctx, p, live, d.Name, set.Trust())
}

// store writes the Secret. One that is there is patched, bound to what was read, and not applied: what
// somebody edited by hand is taken back, for which an apply would have to be forced.
func (i Installer) store(ctx context.Context, p *Plan, d serving.Deployment, have *corev1.Secret, set cert.Set) error {
	want, err := p.serving().Secret(d, set)
	if err != nil {
		return err
	}
	if have == nil {
		_, _, err := apply.Ensure(ctx, i.Account, want, deployment.Ours(p.in.Owner))
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

// service writes the Service unless the cache shows it in place.
func (i Installer) service(ctx context.Context, p *Plan, live *Live, d serving.Deployment, recorded []string) error {
	want, err := p.serving().Service(d, slices.Compact(slices.Sorted(slices.Values(recorded))))
	if err != nil {
		return err
	}
	if have := live.services[d.Name]; have != nil && inPlace(have, want, p.in.Owner) {
		return nil
	}
	_, _, err = apply.Ensure(ctx, i.Account, want, deployment.Ours(p.in.Owner))
	return err
}

// secret reads a Deployment's Secret; nil where there is none. Self may not read it.
func (i Installer) secret(ctx context.Context, p *Plan, name string) (*corev1.Secret, error) {
	key := types.NamespacedName{Namespace: p.in.Owner.Namespace, Name: cert.SecretName(name)}
	secret := &corev1.Secret{}
	if err := i.Account.Get(ctx, key, secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Secret %s: %w", key, err)
	} else if err != nil {
		return nil, nil
	}
	if !p.in.Owner.Owns(secret) {
		return nil, &apply.CollisionError{Object: "Secret " + key.String(), Why: fmt.Sprintf(
			"it does not carry the marks of package %q in namespace %q", p.in.Owner.Package, p.in.Owner.Namespace)}
	}
	return secret, nil
}

func (i Installer) observe(p *Plan, live *Live, d serving.Deployment, secret *corev1.Secret) cert.Observed {
	o := cert.Observed{Now: i.Now, Hosts: cert.Hosts(d.Name, p.in.Owner.Namespace), Bundles: live.bundles(p, d.Name)}
	if service := live.services[d.Name]; service != nil && p.in.Owner.Owns(service) {
		o.Recorded = serving.Recorded(service)
	}
	pods := live.deployments[d.Name]
	if hash := running(pods); hash != "" && p.in.Owner.Owns(pods) {
		o.Recorded = append(o.Recorded, hash)
	}
	if secret == nil {
		return o
	}
	o.Data = secret.Data
	if o.Data == nil {
		o.Data = map[string][]byte{}
	}
	o.Running = pods != nil && running(pods) == cert.Hash(o.Data[cert.KeyCA]) && deployment.Status(pods).Ready
	o.TrustedFor = i.Memory.trustedFor(secret.UID, cert.NextHash(o.Data), o.Bundles, i.Now)
	return o
}

// refresh reads the Service past the cache.
func (i Installer) refresh(ctx context.Context, p *Plan, live *Live, name string) error {
	service := &corev1.Service{}
	err := i.Account.Get(ctx, p.service(name), service)
	switch {
	case err == nil:
		live.services[name] = service
	case client.IgnoreNotFound(err) == nil:
		delete(live.services, name)
	default:
		return fmt.Errorf("get Service %s: %w", p.service(name), err)
	}
	return nil
}

// Rolling says that the Pods of a Deployment were made for another authority than that of its certificate.
func (l *Live) Rolling(c Certificate) bool {
	hash := running(l.deployments[c.Deployment])
	return hash != "" && c.Hash != "" && hash != c.Hash
}

// Running is the authority that a Deployment's Pods were made for; "" where none is noted.
func (l *Live) Running(deployment string) string { return running(l.deployments[deployment]) }

// running is the authority that a Deployment's Pods were made for; "" where none is noted.
func running(d *appsv1.Deployment) string {
	if d == nil {
		return ""
	}
	return d.Spec.Template.Annotations[names.AnnotationCAHash]
}

// writes are the objects that a step of a rotation may have to write, to be held against the account.
func (p *Plan) writes(live *Live, d serving.Deployment) []*unstructured.Unstructured {
	named := func(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		obj.SetAPIVersion(apiVersion)
		obj.SetKind(kind)
		obj.SetNamespace(namespace)
		obj.SetName(name)
		return obj
	}
	out := []*unstructured.Unstructured{
		named("v1", "Service", p.in.Owner.Namespace, cert.ServiceName(d.Name)),
		named("v1", "Secret", p.in.Owner.Namespace, cert.SecretName(d.Name)),
		named("apps/v1", "Deployment", p.in.Owner.Namespace, d.Name),
	}
	for _, obj := range live.callers(p, d.Name) {
		apiVersion := "admissionregistration.k8s.io/v1"
		if kindOf(obj) == "APIService" {
			apiVersion = "apiregistration.k8s.io/v1"
		}
		out = append(out, named(apiVersion, kindOf(obj), "", obj.GetName()))
	}
	return out
}

// trust gives a caBundle to all that calls the Deployment already.
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

// patch patches a CustomResourceDefinition, and keeps what comes back for what follows.
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

// Memory notes since when a staged pair has been seen to be trusted everywhere. What is forgotten is only
// waited for anew.
type Memory struct {
	mu    sync.Mutex
	since map[types.UID]noted
}

type noted struct {
	hash string
	at   time.Time
}

func (m *Memory) trustedFor(secret types.UID, next string, bundles [][]byte, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if next == "" || slices.ContainsFunc(bundles, func(b []byte) bool { return !cert.TrustsHash(b, next) }) {
		delete(m.since, secret)
		return 0
	}
	if m.since == nil {
		m.since = map[types.UID]noted{}
	}
	if m.since[secret].hash != next {
		m.since[secret] = noted{next, now}
	}
	return now.Sub(m.since[secret].at)
}
