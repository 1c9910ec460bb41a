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
	// Accounts bound what is installed in the namespace: those that its OperatorGroup names or named.
	Accounts []types.NamespacedName
	// Beside are the accounts that bound installs in the scene's other namespaces, one for each.
	Beside []types.NamespacedName
	// Stronger are ServiceAccounts of the namespace that intentionally have more permissions than the account.
	Stronger []string
	// Allowed reports whether the account may have created or changed an object outside of the namespace,
	// because it has permission to.
	Allowed func(Change) bool

	// granted are the permissions that the accounts were observed to have in the namespace and in the whole cluster.
	granted Rules
}

// Oracle checks the invariants of one cluster.
type Oracle struct {
	cluster   *env.Cluster
	client    *discovery.DiscoveryClient
	authority *authority
	logs      *logs
	pulse     *pulse
	// scenes are the namespaces of all scenes so far and of the healthy installs; accounts are their accounts.
	scenes   map[string]bool
	accounts map[types.NamespacedName]bool
	// last is the last snapshot; audited is the offset of the audit log at that time, and worked the processor time that the
	// programs had used.
	last    *Snapshot
	audited int64
	worked  map[Program]time.Duration
	// Canary is a text that only objects in the namespaces of its Homes may contain; "" means none.
	Canary string
	Homes  []string
	// Checks counts how often each invariant was checked.
	Checks int
	// Largest is the largest resident size of one of Remit's programs so far, in bytes.
	Largest int
	// Busiest is the most processor time that one of them has used in a scene, Most the most requests of one identity, and
	// Slowest the longest of the healthy installs.
	Busiest, Slowest time.Duration
	Most             int
}

// New prepares the namespace in which I5 is measured.
func New(ctx context.Context, cluster *env.Cluster) (*Oracle, error) {
	config := cluster.Config()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	o := &Oracle{cluster: cluster, client: client, logs: &logs{dir: cluster.Dir, read: map[string]int64{}},
		scenes: map[string]bool{pulseNamespace: true}, accounts: map[types.NamespacedName]bool{}}
	if o.authority, err = newAuthority(ctx, client.RESTClient(), cluster.Client); err != nil {
		return nil, fmt.Errorf("prepare the questions to the API server: %w", err)
	}
	if o.pulse, err = newPulse(ctx, cluster); err != nil {
		return nil, fmt.Errorf("prepare the installs of others: %w", err)
	}
	o.accounts[o.pulse.account] = true
	return o, nil
}

// boundIn returns the accounts that bound what is installed in a namespace, or in the whole cluster.
func (s *Scene) boundIn(scope string) []types.NamespacedName {
	out := slices.Clone(s.Accounts)
	for _, account := range s.Beside {
		if account.Namespace == scope {
			out = append(out, account)
		}
	}
	return out
}

// Look takes the snapshot that the next Check compares with, if there is none yet. Each
// Check takes the snapshot for the following one, so that nothing in between is missed. From now on the scene's accounts may
// act in its namespace, whichever scene is checked.
func (o *Oracle) Look(ctx context.Context, scene *Scene) error {
	o.meet(scene)
	if err := resetPeaks(o.cluster); err != nil || o.last != nil {
		return err
	}
	return o.see(ctx)
}

func (o *Oracle) meet(scene *Scene) {
	o.scenes[scene.Namespace] = true
	for _, account := range slices.Concat(scene.Accounts, scene.Beside) {
		o.accounts[account] = true
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
	_, o.audited, err = o.cluster.AuditedFrom(ctx, o.audited, func(audit.Event) bool { return false })
	return err
}

// Remember records the permissions of the scene's accounts before the test revokes some: what was installed
// by then stays (security model, D4).
func (o *Oracle) Remember(ctx context.Context, scene *Scene) error {
	granted := Rules{}
	for _, scope := range []string{clusterScope, scene.Namespace} {
		for _, account := range scene.Accounts {
			rules, err := o.authority.rules(ctx, serviceAccount(account), scope)
			if err != nil {
				return err
			}
			granted[scope] = append(granted[scope], rules...)
		}
	}
	scene.granted = granted
	return nil
}

// Beat installs an operator for others. When it returns, both programs have processed what they had to
// do before.
func (o *Oracle) Beat(ctx context.Context) error { return (<-o.pulse.start(ctx)).err }

// Check compares the cluster with the last snapshot. The error names every invariant that does
// not hold.
func (o *Oracle) Check(ctx context.Context, scene *Scene) error {
	o.meet(scene)
	before := o.last
	after, err := take(ctx, o.client)
	if err != nil {
		return err
	}
	o.last = after
	beat := o.pulse.start(ctx)
	requests, next, err := o.cluster.AuditedFrom(ctx, o.audited, func(audit.Event) bool { return true })
	if err != nil {
		return err
	}
	o.audited = next
	log := newLedger(o.cluster.ControllerIdentities(), requests)
	unbound, runs, err := o.checkAuthority(ctx, scene, before, after, log)
	if err != nil {
		return err
	}
	leaks, err := o.leaks(after)
	if err != nil {
		return err
	}
	large, err := o.tooLarge()
	if err != nil {
		return err
	}
	busy, err := o.overworked()
	if err != nil {
		return err
	}
	o.Checks++
	return errors.Join(
		violated("I1 (bound by the account)", unbound),
		violated("I2 (self keeps to the closed list)", o.checkSelf(requests)),
		violated("I3 (nothing outside changes)", o.changesOutside(scene, after.since(before), log)),
		violated("I4 (no token and no secret of others shows)", leaks),
		violated("I5 (others are served)", slices.Concat(busy, o.talkative(requests), o.served(beat))),
		violated("I6 (size is bounded)", large),
		violated("I7 (nothing runs as more than the account)", runs),
	)
}

// checkAuthority checks I1 and I7.
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

// served returns what failed in the healthy install.
func (o *Oracle) served(beat <-chan beaten) []string {
	b := <-beat
	o.Slowest = max(o.Slowest, b.took)
	return lines(b.err)
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// maxLines bounds the violations of one invariant that are shown.
const maxLines = 20

func violated(invariant string, what []string) error {
	if len(what) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d violations:\n  %s", invariant, len(what), strings.Join(what[:min(maxLines, len(what))], "\n  "))
}

// Thief is the user agent of rows with a stolen token of Remit's programs; its requests are not attributed to the programs.
const Thief = "thief"

// checkSelf checks I2.
func (o *Oracle) checkSelf(requests []audit.Event) []string {
	self := o.cluster.ControllerIdentities()
	var out []string
	for _, e := range requests {
		if !self.Is(e) || e.UserAgent == Thief {
			continue
		}
		if !self.Allows(e) || o.mintsForOthers(e) {
			out = append(out, e.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// mintsForOthers reports whether a controller identity got a token of a ServiceAccount that is not an account of any scene.
func (o *Oracle) mintsForOthers(e audit.Event) bool {
	if e.Object == nil || e.Object.Subresource != "token" || e.Response.Code != http.StatusCreated {
		return false
	}
	return !o.accounts[types.NamespacedName{Namespace: e.Object.Namespace, Name: e.Object.Name}]
}

// DepartingPrefix is the prefix of namespaces that tests create for one scene and leave for deletion.
const DepartingPrefix = "t1-"

// Invariants is the number of invariants.
const Invariants = 7
