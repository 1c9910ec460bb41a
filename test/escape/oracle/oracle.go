package oracle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// Scene describes the namespace of an attack to the oracle.
type Scene struct {
	Namespace string
	// Accounts are the accounts whose permissions limit installs in the namespace: those that its OperatorGroup names or
	// has named.
	Accounts []types.NamespacedName
	// Beside are the accounts whose permissions limit installs in the scene's other namespaces, one per namespace.
	Beside []types.NamespacedName
	// Extensions are the names of the scene's ClusterExtensions. The permissions of their synthetic users limit installs in
	// all namespaces.
	Extensions []string
	// Stronger are ServiceAccounts of the namespace that intentionally have more permissions than the account.
	Stronger []string
	// Gifts are namespaces in which their own administrators grant something to ServiceAccounts of the scene (docs/adr/0092).
	Gifts []string
	// Allowed reports whether a change to an object outside the namespace is legitimate because the account has permission
	// to make it.
	Allowed func(Change) bool

	// granted contains the permissions that Remember has recorded for the accounts.
	granted Rules
}

// Oracle checks the invariants of one cluster.
type Oracle struct {
	cluster   *env.Cluster
	client    *discovery.DiscoveryClient
	authority *authority
	logs      *logs
	pulse     *pulse
	// scenes contains the namespaces of all scenes so far and of the healthy installs, and accounts contains their
	// accounts.
	scenes   map[string]bool
	accounts map[types.NamespacedName]bool
	// extensions maps the names of all ClusterExtensions so far to the namespace of their scene.
	extensions map[string]string
	// leaving contains the namespaces that Leave has marked as terminating and that are not empty yet.
	leaving map[string]bool
	// last is the last snapshot, audited the offset of the audit log after it, and worked the CPU time that the programs had
	// used by then. late contains the requests between the beginning of the snapshot and the offset.
	last    *Snapshot
	audited int64
	late    []audit.Event
	worked  map[Program]time.Duration
	// listAll makes the next Check list all resources.
	listAll bool
	// Canary is a string that only objects in the namespaces Homes may contain. If it is "", the oracle does not search for
	// it.
	Canary string
	Homes  []string
	// Checks counts how often each invariant was checked.
	Checks int
	// Largest is the largest resident size of one of Remit's programs so far, in bytes.
	Largest int
	// Busiest is the maximum CPU time that a program has used in a scene, Slowest the duration of the slowest healthy
	// install, and Most the maximum number of requests that an identity has sent in a scene.
	Busiest, Slowest time.Duration
	Most             int
}

// New returns an oracle for a cluster. It prepares the namespace in which I5 is measured. image is a catalog image with the
// content HealthyExtensions.
func New(ctx context.Context, cluster *env.Cluster, image string) (*Oracle, error) {
	config := cluster.Config()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	o := &Oracle{cluster: cluster, client: client, logs: &logs{dir: cluster.Dir, read: map[string]int64{}},
		scenes: map[string]bool{pulseNamespace: true}, accounts: map[types.NamespacedName]bool{}, extensions: map[string]string{},
		leaving: map[string]bool{}}
	if o.authority, err = newAuthority(ctx, client.RESTClient(), cluster.Client); err != nil {
		return nil, fmt.Errorf("prepare requests to the API server: %w", err)
	}
	if o.pulse, err = newPulse(ctx, cluster); err != nil {
		return nil, fmt.Errorf("prepare the healthy installs: %w", err)
	}
	if err := o.pulse.addExtensions(ctx, cluster, image); err != nil {
		return nil, fmt.Errorf("prepare the healthy ClusterExtensions: %w", err)
	}
	o.accounts[o.pulse.account] = true
	return o, nil
}

// bounds returns the identities whose permissions limit installs in the scene's namespace.
func (s *Scene) bounds() []identity {
	var out []identity
	for _, account := range s.Accounts {
		out = append(out, serviceAccount(account))
	}
	for _, name := range s.Extensions {
		out = append(out, syntheticUser(name))
	}
	return out
}

// boundIn returns the identities whose permissions limit installs in a scope.
func (s *Scene) boundIn(scope string) []identity {
	out := s.bounds()
	for _, account := range s.Beside {
		if account.Namespace == scope {
			out = append(out, serviceAccount(account))
		}
	}
	return out
}

// Register registers a scene before its attack. From then on, every Check allows the scene's accounts to act in its
// namespace. For the first scene, Register also takes a snapshot. Later scenes are compared with the snapshot of the
// previous Check, so that no change is missed.
func (o *Oracle) Register(ctx context.Context, scene *Scene) error {
	o.meet(scene)
	if o.last == nil {
		if err := o.see(ctx); err != nil {
			return err
		}
	}
	resetPeaks(o.worked)
	return nil
}

func (o *Oracle) meet(scene *Scene) {
	o.scenes[scene.Namespace] = true
	for _, account := range slices.Concat(scene.Accounts, scene.Beside) {
		o.accounts[account] = true
	}
	for _, name := range scene.Extensions {
		o.extensions[name] = scene.Namespace
	}
}

func (o *Oracle) see(ctx context.Context) error {
	var err error
	if o.last, err = take(ctx, o.client); err != nil {
		return err
	}
	if o.worked, err = o.spent(); err != nil {
		return err
	}
	o.audited, err = o.cluster.AuditedUntilNow(ctx, o.audited)
	return err
}

// Remember records the current permissions of the scene's accounts. Call it before revoking any of them, because
// objects that were installed earlier remain.
func (o *Oracle) Remember(ctx context.Context, scene *Scene) error {
	granted := Rules{}
	for _, scope := range []string{clusterScope, scene.Namespace} {
		for _, who := range scene.bounds() {
			rules, err := o.authority.rules(ctx, who, scope)
			if err != nil {
				return err
			}
			granted[scope] = append(granted[scope], rules...)
		}
	}
	scene.granted = granted
	return nil
}

// BeatExtensions installs a ClusterExtension without Pods for another tenant. When it returns, the program for
// ClusterExtensions has started all earlier work.
func (o *Oracle) BeatExtensions(ctx context.Context) error {
	return o.pulse.barrier(ctx, o.pulse.beatExtension)
}

// Beat installs an operator without Pods for another tenant. When it returns, both programs for OLM v0 have processed
// all earlier work.
func (o *Oracle) Beat(ctx context.Context) error { return o.pulse.barrier(ctx, o.pulse.beat) }

// ListAll makes the next Check list all resources, even if the audit log has no requests that may have changed them.
func (o *Oracle) ListAll() { o.listAll = true }

// Check compares the cluster with the last snapshot. It returns an error that lists all violated invariants.
func (o *Oracle) Check(ctx context.Context, scene *Scene) error {
	o.meet(scene)
	before := o.last
	earlier, next, err := o.cluster.AuditedFrom(ctx, o.audited, func(audit.Event) bool { return true })
	if err != nil {
		return err
	}
	after := o.unchanged(earlier)
	if err := after.complete(ctx, o.client); err != nil {
		return err
	}
	o.last = after
	if err := o.sweep(ctx); err != nil {
		return err
	}
	beats := []<-chan beaten{o.pulse.start(ctx)}
	if len(scene.Extensions) > 0 {
		beats = append(beats, o.pulse.startExtension(ctx))
	}
	late, next, err := o.cluster.AuditedFrom(ctx, next, func(audit.Event) bool { return true })
	if err != nil {
		return err
	}
	requests := slices.Concat(earlier, late)
	log := newLedger(o.cluster.ControllerIdentities(), o.late, requests)
	o.audited, o.late, o.listAll = next, late, false
	unbound, runs, err := o.checkAuthority(ctx, scene, before, after, log)
	if err != nil {
		return err
	}
	mixed, err := o.mixed(after)
	if err != nil {
		return err
	}
	leaks, err := o.leaks(after)
	if err != nil {
		return err
	}
	programs, err := o.spent()
	if err != nil {
		return err
	}
	large, busy := o.tooLarge(programs), o.overworked(programs)
	o.Checks++
	return errors.Join(
		violated("I1 (bound by the account)", unbound),
		violated("I2 (controller identities stay within the closed list)", o.checkControllers(requests)),
		violated("I3 (nothing outside changes)", slices.Concat(mixed, o.changesOutside(scene, after.since(before), log))),
		violated("I4 (no tokens and no secrets of others leak)", leaks),
		violated("I5 (others can still install)", slices.Concat(busy, o.talkative(requests), o.served(beats))),
		violated("I6 (memory is bounded)", large),
		violated("I7 (nothing runs with more permissions than the account)", runs),
	)
}

// checkAuthority returns the violations of I1 and of I7.
func (o *Oracle) checkAuthority(ctx context.Context, scene *Scene, before, after *Snapshot, log *ledger) (unbound, runs []string, err error) {
	w, err := readRBAC(after)
	if err != nil {
		return nil, nil, err
	}
	b := &bound{authority: o.authority, scene: scene}
	defer b.close()
	if unbound, err = b.checkBound(ctx, w, before, log); err != nil {
		return nil, nil, err
	}
	runs, err = b.checkRuns(ctx, w, before, after, log)
	return unbound, runs, err
}

// leaks checks I4.
func (o *Oracle) leaks(s *Snapshot) ([]string, error) {
	out, err := leaksIn(s)
	if err != nil {
		return nil, err
	}
	if o.Canary != "" {
		out = append(out, strangers(s, o.Canary, o.Homes)...)
	}
	logged, err := o.logs.leaks(o.Canary)
	return append(out, logged...), err
}

// served waits for the healthy installs and returns their errors.
func (o *Oracle) served(beats []<-chan beaten) []string {
	var out []string
	for _, beat := range beats {
		b := <-beat
		o.Slowest = max(o.Slowest, b.took)
		out = append(out, lines(b.err)...)
	}
	return out
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// maxLines is the maximum number of violations of one invariant in an error.
const maxLines = 20

func violated(invariant string, what []string) error {
	if len(what) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d violations:\n  %s", invariant, len(what), strings.Join(what[:min(maxLines, len(what))], "\n  "))
}

// Thief is the user agent of requests that rows send with a stolen token of one of Remit's programs. These requests are
// not attributed to the program.
const Thief = "thief"

// checkControllers checks I2.
func (o *Oracle) checkControllers(requests []audit.Event) []string {
	self := o.cluster.ControllerIdentities()
	var out []string
	for _, e := range requests {
		if !self.Is(e) || e.UserAgent == Thief {
			continue
		}
		if !self.Allows(e) || o.mintsForOthers(e) || o.impersonatesOthers(e) {
			out = append(out, e.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// mintsForOthers reports whether a controller identity obtained a token for a ServiceAccount that is not an account of
// any scene.
func (o *Oracle) mintsForOthers(e audit.Event) bool {
	if e.Object == nil || e.Object.Subresource != "token" || e.Response.Code != http.StatusCreated {
		return false
	}
	return !o.accounts[types.NamespacedName{Namespace: e.Object.Namespace, Name: e.Object.Name}]
}

// impersonatesOthers reports whether a controller identity sent a request as a user that does not belong to a ClusterExtension of
// any scene.
func (o *Oracle) impersonatesOthers(e audit.Event) bool {
	return e.Impersonated != nil && o.homeOfUser(e.Impersonated.Username) == ""
}

// DepartingPrefix is the prefix of the scenes' namespaces. Scenes do not wait until their namespaces are deleted.
const DepartingPrefix = "t1-"

// Invariants is the number of invariants.
const Invariants = 7
