package oracle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// Scene is what an oracle has to know of the namespace in which something hostile was done.
type Scene struct {
	Namespace string
	// Accounts bound what is installed in the namespace: those that its OperatorGroup names or named.
	Accounts []types.NamespacedName
	// Stronger are ServiceAccounts of the namespace that are meant to hold more than the account.
	Stronger []string
	// Allowed says of objects outside of the namespace that the account may have made or changed them,
	// because it holds the right to.
	Allowed func(Change) bool

	// held is what the accounts were seen to hold.
	held Rules
}

// Oracle looks at one cluster.
type Oracle struct {
	cluster *env.Cluster
	client  *discovery.DiscoveryClient
	logs    *logs
	pulse   *pulse
	// last is the world at the last look; audited is how far the audit log was read then.
	last    *Snapshot
	audited int64
	// Canary is a text that only objects of the namespaces of its Homes may hold; "" for none.
	Canary string
	Homes  []string
	// Checks counts how often each of the invariants was looked at.
	Checks int
	// Largest is the greatest resident size of one of Remit's programs so far, in bytes.
	Largest int
}

// New prepares the namespace in which I5 is measured.
func New(ctx context.Context, cluster *env.Cluster) (*Oracle, error) {
	config := cluster.Config()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	o := &Oracle{cluster: cluster, client: client, logs: &logs{dir: cluster.Dir, read: map[string]int64{}}}
	if o.pulse, err = newPulse(ctx, cluster.Client); err != nil {
		return nil, fmt.Errorf("prepare the installs of others: %w", err)
	}
	return o, nil
}

// Look takes the world as it is for what the next Check compares with, where there was none before: each
// Check is a look for the one after it, so that nothing happens unseen in between.
func (o *Oracle) Look(ctx context.Context) error {
	if err := resetPeaks(o.cluster); err != nil || o.last != nil {
		return err
	}
	return o.see(ctx)
}

func (o *Oracle) see(ctx context.Context) error {
	var err error
	if o.last, err = take(ctx, o.client); err != nil {
		return err
	}
	_, o.audited, err = o.cluster.AuditedFrom(ctx, o.audited, func(audit.Event) bool { return false })
	return err
}

// Remember notes what the scene's accounts hold, before the test takes some of it away: what was installed
// by then stays (security model, D4).
func (o *Oracle) Remember(ctx context.Context, scene *Scene) error {
	s := &Snapshot{objects: map[Key]version{}, bodies: map[schema.GroupResource][]byte{}}
	for _, gvr := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "namespaces"},
		rbacResource("roles").WithVersion("v1"), rbacResource("rolebindings").WithVersion("v1"),
		rbacResource("clusterroles").WithVersion("v1"), rbacResource("clusterrolebindings").WithVersion("v1"),
	} {
		if err := s.list(ctx, o.client.RESTClient(), gvr); err != nil {
			return err
		}
	}
	w, err := readRBAC(s)
	if err != nil {
		return err
	}
	scene.held, err = w.bound(scene)
	return err
}

// Beat installs something for others: a moment by which both programs have gone through what they had to
// do before.
func (o *Oracle) Beat(ctx context.Context) error { return <-o.pulse.start(ctx) }

// Check compares the world with what it was at the last look. The error names every invariant that does
// not hold.
func (o *Oracle) Check(ctx context.Context, scene *Scene) error {
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
	w, err := readRBAC(after)
	if err != nil {
		return err
	}
	own := touched(requests)
	unbound, err := checkBound(w, scene, before, own)
	if err != nil {
		return err
	}
	leaks, err := leaksIn(after)
	if err != nil {
		return err
	}
	if o.Canary != "" {
		leaks = append(leaks, strangers(after, o.Canary, o.Homes)...)
	}
	logged, err := o.logs.leaks(o.Canary)
	if err != nil {
		return err
	}
	large, err := o.tooLarge()
	if err != nil {
		return err
	}
	o.Checks++
	return errors.Join(
		violated("I1 (bound by the account)", unbound),
		violated("I2 (self keeps to the closed list)", o.checkSelf(scene, requests)),
		violated("I3 (nothing outside changes)", changesOutside(scene, after.since(before), own)),
		violated("I4 (no token and no secret of others shows)", append(leaks, logged...)),
		violated("I5 (others are served)", lines(<-beat)),
		violated("I6 (size is bounded)", large),
	)
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// maxLines is how much of one invariant's violations is shown.
const maxLines = 20

func violated(invariant string, what []string) error {
	if len(what) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d violations:\n  %s", invariant, len(what), strings.Join(what[:min(maxLines, len(what))], "\n  "))
}

// checkSelf is I2.
func (o *Oracle) checkSelf(scene *Scene, requests []audit.Event) []string {
	self := env.Self()
	var out []string
	for _, e := range requests {
		if !self.Is(e) {
			continue
		}
		if !self.Allows(e) || o.mintsForOthers(scene, e) {
			out = append(out, e.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// mintsForOthers says whether self got a token of somebody who is no account.
func (o *Oracle) mintsForOthers(scene *Scene, e audit.Event) bool {
	if e.Object == nil || e.Object.Subresource != "token" || e.Response.Code != http.StatusCreated {
		return false
	}
	who := types.NamespacedName{Namespace: e.Object.Namespace, Name: e.Object.Name}
	if who == o.pulse.account {
		return false
	}
	return who.Namespace == scene.Namespace && !slices.Contains(scene.Accounts, who)
}

// administrators are who the tests act as.
const administrator = "remit-admin"

// touched are the objects that the test itself has written, or somebody whom it played.
func touched(requests []audit.Event) map[Key]bool {
	out := map[Key]bool{}
	for _, e := range requests {
		if e.User.Username != administrator || !e.IsWrite() || e.Object == nil {
			continue
		}
		resource := schema.GroupResource{Group: e.Object.APIGroup, Resource: e.Object.Resource}
		out[Key{resource, e.Object.Namespace, e.Object.Name}] = true
		if e.Object.Resource == "namespaces" { // the audit log names the namespace of a namespace
			out[Key{resource, "", e.Object.Name}] = true
		}
	}
	return out
}

// changesOutside is I3.
func changesOutside(scene *Scene, changes []Change, own map[Key]bool) []string {
	var out []string
	for _, c := range changes {
		namespace := c.Namespace
		if c.Resource == "namespaces" {
			namespace = c.Name
		}
		switch {
		case namespace == scene.Namespace, namespace == pulseNamespace, own[c.Key]:
		case strings.HasPrefix(namespace, DepartingPrefix): // an earlier scene's, being removed
		case scene.Allowed != nil && scene.Allowed(c):
		default:
			out = append(out, c.String())
		}
	}
	return out
}

// DepartingPrefix begins the names of namespaces that tests make for one scene and leave to be removed.
const DepartingPrefix = "t1-"

// Invariants is how many there are.
const Invariants = 6
