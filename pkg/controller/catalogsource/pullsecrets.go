package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/turns"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxWatches bounds the Secrets of one namespace that are watched concurrently. Changes to other Secrets take effect at
// the next attempt.
const maxWatches = 8

// maxSecrets bounds the pull secrets of an image. Each one is a request, and users can list a hundred thousand.
const maxSecrets = 20

// Limits for the pull secrets of all pulls together, in bytes of their credentials, which take up to three times as much memory.
const (
	// maxNamespaceHeld bounds what the pulls of one namespace keep until they end, and maxHeld what those of all namespaces keep.
	// A namespace always gets leastHeld, which is enough for the usual pull secrets.
	maxNamespaceHeld, maxHeld, leastHeld = 2 << 20, 16 << 20, 16 << 10
	// maxReads bounds the Secrets that are read at the same time, each of which can have more than a MiB, maxNamespaceReads those of one
	// namespace, and readTimeout how long the others wait for one.
	maxReads, maxNamespaceReads, readTimeout = 16, 2, 10 * time.Second
	// readBurst is how many Secrets of a tenant's namespace are read without waiting, and readInterval is the time after which another one
	// can be. Secrets are read at each attempt and poll: without a limit, 50 images with 20 Secrets each cause 33 requests per second.
	readBurst, readInterval = 100, time.Second
)

// pullSecrets reads the pull secrets of images, and retries a failed pull when something that it depends on changes. It reads
// Secrets with an identity that is allowed to read them. Outside the global catalog namespace, the controller identity is not
// allowed to read Secrets.
type pullSecrets struct {
	*Options
	// interests tracks the RBAC that reading Secrets depends on.
	interests rbac.Interests[kit.Retry]

	// reads shares the reads of Secrets between namespaces.
	reads turns.Turns

	mu sync.Mutex
	// paces limits the rate of reads by namespace. A pace that is not in use is removed.
	paces map[string]*rate.Limiter
	pulls map[kit.Retry]attempt
	// running counts the watches by namespace.
	running map[string]int
}

func newPullSecrets(o *Options) *pullSecrets {
	return &pullSecrets{Options: o, reads: turns.Turns{Slots: maxReads, Share: maxNamespaceReads}}
}

// attempt records what the last attempt at a pull used: the version of each Secret by name, or "" if the Secret did not
// exist. Unreadable Secrets are not included, because changes to RBAC trigger a retry for them.
type attempt struct {
	by      types.NamespacedName
	secrets map[string]string
	// held is the size of the credentials that the pull keeps.
	held int
}

// Access returns the credentials for a CatalogSource's image: the pull secrets that it names, and those of the
// ServiceAccount with the same name (OLM v0 contract). The error lists secrets that could not be read; the image may be
// public anyway. The pull is retried when an RBAC change could make those secrets readable.
func (p *pullSecrets) Access(ctx context.Context, key types.NamespacedName, secrets []string, pull kit.Retry) (image.Access, error) {
	listers, done := p.interests.Track(pull, p.RBAC)
	defer done()
	p.release(pull, math.MaxInt)
	p.note(pull, attempt{by: key}) // recorded first, so that changes during this attempt trigger a retry
	credentials := &image.Credentials{}
	out := image.Access{Keychain: credentials, Anywhere: key.Namespace == p.GlobalNamespace}
	var problems []error
	account := &corev1.ServiceAccount{}
	if err := p.Client.Get(ctx, key, account); client.IgnoreNotFound(err) != nil {
		problems = append(problems, fmt.Errorf("get ServiceAccount %s: %w", key.Name, err))
	}
	secrets, all := namesOf(secrets, account.ImagePullSecrets)
	if !all {
		problems = append(problems, fmt.Errorf("only the first %d pull secrets are used", maxSecrets))
	}
	used := attempt{by: key, secrets: map[string]string{}}
	for _, name := range secrets {
		version, err := p.add(ctx, listers, pull, credentials, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil {
			problems = append(problems, err)
		}
		if version != "" || apierrors.IsNotFound(err) {
			used.secrets[name] = version
		}
	}
	p.note(pull, used)
	return out, errors.Join(problems...)
}

// namesOf returns the first maxSecrets distinct names, and whether these are all.
func namesOf(secrets []string, of []corev1.LocalObjectReference) (out []string, all bool) {
	seen := map[string]bool{}
	for i := range len(secrets) + len(of) {
		var name string
		if i < len(secrets) {
			name = secrets[i]
		} else {
			name = of[i-len(secrets)].Name
		}
		switch {
		case seen[name]:
		case len(out) == maxSecrets:
			return out, false
		default:
			seen[name] = true
			out = append(out, name)
		}
	}
	return out, true
}

// maxSecretName is the number of bytes of a name that KeptPullSecrets keeps. No Secret has such a long name.
const maxSecretName = 254

// KeptPullSecrets returns the pull secrets of a ServiceAccount that caches keep: without repetitions, and enough for namesOf to find
// those that are used and to report that there are others.
func KeptPullSecrets(all []corev1.LocalObjectReference) []corev1.LocalObjectReference {
	if len(all) == 0 {
		return all
	}
	seen := make(map[string]bool, maxSecrets)
	var kept []corev1.LocalObjectReference
	for _, secret := range all {
		name := secret.Name[:min(len(secret.Name), maxSecretName)]
		if len(kept) <= maxSecrets && !seen[name] {
			name = strings.Clone(name)
			seen[name] = true
			kept = append(kept, corev1.LocalObjectReference{Name: name})
		}
	}
	return kept
}

// add reads a Secret and adds its credentials to those of a pull, unless that exceeds a limit.
func (p *pullSecrets) add(ctx context.Context, listers rbac.Listers, pull kit.Retry, to *image.Credentials, key types.NamespacedName) (version string, err error) {
	if p.Secrets == nil {
		return "", fmt.Errorf("Secret %q: reading Secrets is not configured", key.Name)
	}
	if err := p.paceOf(key.Namespace).Wait(ctx); err != nil {
		return "", fmt.Errorf("Secret %q: the Secrets of the namespace are being read too often: %w", key.Name, err)
	}
	turn, _, err := p.reads.Join(ctx, key.Namespace)
	if err != nil {
		return "", fmt.Errorf("Secret %q: %w", key.Name, err)
	}
	defer turn.Leave()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	secret, err := p.Secrets(ctx, listers, key)
	if err != nil {
		return "", fmt.Errorf("Secret %q: %w", key.Name, err)
	}
	if err := p.hold(pull, image.SizeOf(secret)); err != nil {
		return secret.ResourceVersion, fmt.Errorf("Secret %q: %w", key.Name, err)
	}
	err = to.Add(secret)
	if err != nil {
		p.release(pull, image.SizeOf(secret))
	}
	return secret.ResourceVersion, err
}

// paceOf returns the pace at which the Secrets of a namespace are read. The global catalog namespace has none: tenants who install from
// its catalogs would delay each other.
func (p *pullSecrets) paceOf(namespace string) *rate.Limiter {
	if namespace == p.GlobalNamespace {
		return rate.NewLimiter(rate.Inf, 0)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pace := p.paces[namespace]
	if pace == nil {
		maps.DeleteFunc(p.paces, func(_ string, unused *rate.Limiter) bool { return unused.Tokens() >= readBurst })
		if p.paces == nil {
			p.paces = map[string]*rate.Limiter{}
		}
		pace = rate.NewLimiter(rate.Every(readInterval), readBurst)
		p.paces[namespace] = pace
	}
	return pace
}

// hold counts credentials of a pull that is running, or returns an error if they exceed a limit.
func (p *pullSecrets) hold(pull kit.Retry, size int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.pulls[pull]
	namespace, all := size, size
	for _, other := range p.pulls {
		if all += other.held; other.by.Namespace == own.by.Namespace {
			namespace += other.held
		}
	}
	switch {
	case namespace > maxNamespaceHeld:
		return fmt.Errorf("the pull secrets of the images that are pulled for namespace %s now contain more than %d bytes of credentials", own.by.Namespace, maxNamespaceHeld)
	case all > maxHeld && namespace > leastHeld:
		return fmt.Errorf("the pull secrets of the images that are pulled for all namespaces now contain more than %d bytes of credentials, and those for namespace %s more than %d",
			maxHeld, own.by.Namespace, leastHeld)
	}
	own.held += size
	p.pulls[pull] = own
	return nil
}

// release no longer counts credentials that hold has counted, or all of a pull whose attempt has ended.
func (p *pullSecrets) release(pull kit.Retry, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own, ok := p.pulls[pull]; ok {
		own.held = max(0, own.held-size)
		p.pulls[pull] = own
	}
}

func (p *pullSecrets) note(pull kit.Retry, used attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulls == nil {
		p.pulls, p.running = map[kit.Retry]attempt{}, map[string]int{}
	}
	used.held = p.pulls[pull].held
	p.pulls[pull] = used
}

// Forget stops tracking what a pull depends on.
func (p *pullSecrets) Forget(pull kit.Retry) {
	_, done := p.interests.Track(pull, p.RBAC)
	done()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pulls, pull)
}

// retry immediately retries the failed pulls of matching CatalogSources.
func (p *pullSecrets) retry(match func(types.NamespacedName) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pull, last := range p.pulls {
		if match(last.by) {
			pull.Ask()
		}
	}
}

// Wait waits after a failed attempt, for the delay or until a retry is requested. It returns the next delay; ok is
// false if ctx is done.
func (p *pullSecrets) Wait(ctx context.Context, namespace string, pull kit.Retry, pause time.Duration) (next time.Duration, ok bool) {
	p.release(pull, math.MaxInt)
	end := p.watch(ctx, namespace, pull)
	defer end()
	asked, ok := pull.Sleep(ctx, p.Clock, wait.Jitter(pause, pollJitter))
	return kit.NextPause(pause, asked), ok
}

// watch watches the Secrets of a pull, and retries the pull when one of them changes. The returned function stops the watches.
func (p *pullSecrets) watch(ctx context.Context, namespace string, pull kit.Retry) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for name, version := range p.pulls[pull].secrets {
		if p.WatchSecret == nil || p.running[namespace] == maxWatches {
			break
		}
		p.running[namespace]++
		group.Go(func() {
			p.WatchSecret(ctx, types.NamespacedName{Namespace: namespace, Name: name}, version, pull.Ask)
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.running[namespace]--; p.running[namespace] == 0 {
				delete(p.running, namespace)
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}
