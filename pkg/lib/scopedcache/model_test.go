package scopedcache_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

var (
	modelSteps = flag.Int("model.steps", 100, "steps of the model test")
	modelSeed  = flag.Uint64("model.seed", 0, "seed of the model test; 0 for a new one")
)

// model performs random actions of owners, administrators and other users, and compares the cache with the expected
// content.
type model struct {
	*world
	random     *rand.Rand
	kinds      []*modelKind
	namespaces []string
	owners     []scopedcache.OwnerRef
	claims     map[scopedcache.OwnerRef]map[modelClaim]bool
	steps      []string
}

type modelKind struct {
	group, resource string
	empty           client.Object
	crd             *apiextensionsv1.CustomResourceDefinition // nil for a built-in kind
	custom          custom
	installed       bool
	grants          map[scopedcache.Scope]func() // functions that revoke the grants

	mu sync.Mutex
	// received contains the resource versions of the objects for which the handler received events. wrong contains the
	// events that it should not have received.
	received map[types.NamespacedName]string
	wrong    []string
}

type modelClaim struct {
	kind  *modelKind
	scope scopedcache.Scope
}

// This test is not parallel, because it counts goroutines.
func TestModel(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -model.seed=%d", seed)
	running := goroutines(t)
	w := prepare(t, func(o *scopedcache.Options) {
		o.RecheckPeriod = time.Second
		o.Retry = scopedcache.Retry{Initial: 20 * time.Millisecond, Max: 200 * time.Millisecond}
		o.ReadTimeout = 100 * time.Millisecond
		o.CoalesceObjects = 0
	})
	w.log.pass(newLagging)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	m := newModel(w, seed)
	for n := 0; n < *modelSteps; {
		m.steps = nil
		for range 1 + m.random.IntN(30) {
			m.step()
			n++
		}
		m.check()
	}
	for _, o := range m.owners {
		m.Release(o)
	}
	for _, k := range m.kinds {
		w.eventually(func(ct *assert.CollectT) { assert.Empty(ct, w.log.open(k.resource)) })
	}
	cancel()
	require.NoError(t, <-ended)
	w.eventually(func(ct *assert.CollectT) { assert.Zero(ct, running()) })
}

// goroutines returns a function that counts the goroutines of the cache, the reflectors and the watches that the test has started since.
// It does not count those of other tests, of which some may still be exiting: a goroutine inherits the labels of the one that starts it.
func goroutines(t *testing.T) func() int {
	t.Helper()
	pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("test", t.Name())))
	t.Cleanup(func() { pprof.SetGoroutineLabels(context.Background()) })
	label := fmt.Sprintf("%q:%q", "test", t.Name())
	return func() int {
		n := 0
		for _, s := range stacks() {
			if strings.Contains(s, label) {
				n += count(t, s)
			}
		}
		return n
	}
}

// count returns the number of goroutines of a record of the goroutine profile, which begins with it.
func count(t *testing.T, record string) int {
	t.Helper()
	n, _, _ := strings.Cut(record, " @ ")
	out, err := strconv.Atoi(n)
	require.NoError(t, err, record)
	return out
}

// stacks returns the records of the goroutine profile that are about the cache, the reflectors and the watches. A record stands for all
// goroutines with the same stack and labels.
func stacks() []string {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)   // writing to a buffer does not fail
	_, records, _ := strings.Cut(profile.String(), "\n") // after the total
	return slices.DeleteFunc(strings.Split(records, "\n\n"), func(s string) bool {
		return !strings.Contains(s, "lib/scopedcache.") && !strings.Contains(s, "client-go/tools/cache") && !strings.Contains(s, "apimachinery/pkg/watch")
	})
}

func newModel(w *world, seed uint64) *model {
	m := &model{world: w, random: rand.New(rand.NewPCG(seed, 1)), claims: map[scopedcache.OwnerRef]map[modelClaim]bool{}}
	c := newCustom()
	m.kinds = []*modelKind{
		{resource: "secrets", empty: &corev1.Secret{}, installed: true},
		{resource: "configmaps", empty: &corev1.ConfigMap{}, installed: true},
		{group: c.group, resource: "things", empty: c.object("", ""), custom: c},
	}
	for range 3 {
		m.namespaces = append(m.namespaces, w.namespace())
	}
	for i := range 4 {
		m.owners = append(m.owners, owner(fmt.Sprint("owner", i)))
		m.claims[m.owners[i]] = map[modelClaim]bool{}
	}
	for _, k := range m.kinds {
		k.grants, k.received = map[scopedcache.Scope]func(){}, map[types.NamespacedName]string{}
		if k.custom.group != "" {
			m.toggle(k)
		}
		m.listen(k)
	}
	return m
}

// listen registers a handler for a kind.
func (m *model) listen(k *modelKind) {
	informer, err := m.GetInformer(m.Context(), k.empty)
	require.NoError(m, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.receive("add", obj.(client.Object)) },
		UpdateFunc: func(_, obj any) { k.receive("update", obj.(client.Object)) },
		DeleteFunc: func(obj any) { k.receive("delete", obj.(client.Object)) },
	})
	require.NoError(m, err)
}

// receive checks an event that the handler receives. Only objects that were added before are updated or deleted, and no event
// repeats a version or has an older one. An object may be added twice, because the cache may have dropped it in between.
func (k *modelKind) receive(what string, obj client.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, version := client.ObjectKeyFromObject(obj), obj.GetResourceVersion()
	if before, ok := k.received[key]; what != "add" {
		order, err := resourceversion.CompareResourceVersion(before, version)
		if !ok || err != nil || order > 0 || order == 0 && what == "update" {
			k.wrong = append(k.wrong, fmt.Sprintf("%s %s at %s after %q", what, key, version, before))
		}
	}
	if what == "delete" {
		delete(k.received, key)
	} else {
		k.received[key] = version
	}
}

// lagging is the body of a watch response that may be delayed, so that some watches lag behind others. Data that is sent
// together is delayed together, because other tests use the same server, so lists of the cluster may be long. The initial lists
// of a few watches never arrive.
type lagging struct {
	io.ReadCloser
	by     time.Duration
	read   time.Time
	stalls bool
	closed chan struct{}
	once   sync.Once
}

// stalledLists determines how many initial lists stall: one in stalledLists.
const stalledLists = 200

func newLagging(r *http.Request, from io.ReadCloser) io.ReadCloser {
	l := &lagging{ReadCloser: from, closed: make(chan struct{})}
	if rand.IntN(2) == 0 {
		l.by = rand.N(200 * time.Millisecond)
	}
	l.stalls = r.URL.Query().Has("sendInitialEvents") && rand.IntN(stalledLists) == 0
	return l
}

func (l *lagging) Read(to []byte) (int, error) {
	if l.stalls {
		<-l.closed
		return 0, io.EOF
	}
	n, err := l.ReadCloser.Read(to)
	if time.Since(l.read) > l.by {
		select {
		case <-time.After(l.by):
		case <-l.closed:
		}
	}
	l.read = time.Now()
	return n, err
}

func (l *lagging) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.ReadCloser.Close()
}

var objectNames = []string{"a", "b", "c"}

func (m *model) scope() scopedcache.Scope {
	ns, name := m.namespaces[m.random.IntN(len(m.namespaces))], objectNames[m.random.IntN(len(objectNames))]
	switch m.random.IntN(5) {
	case 0:
		return scopedcache.Cluster()
	case 1, 2:
		return scopedcache.Namespace(ns)
	}
	return scopedcache.Object(ns, name)
}

func (m *model) step() {
	k, o, s := m.kinds[m.random.IntN(len(m.kinds))], m.owners[m.random.IntN(len(m.owners))], m.scope()
	what := ""
	n := m.random.IntN(100)
	switch {
	case n < 30:
		what = "ensure"
		m.Ensure(m.Context(), o, scopedcache.Claim{Kind: k.empty, Scope: s})
		m.claims[o][modelClaim{k, s}] = true
	case n < 38:
		what = "release"
		m.Release(o)
		m.claims[o] = map[modelClaim]bool{}
	case n < 45:
		what = "session"
		session := m.Begin(o)
		session.Ensure(m.Context(), scopedcache.Claim{Kind: k.empty, Scope: s})
		session.Commit()
		m.claims[o] = map[modelClaim]bool{{k, s}: true}
	case n < 65:
		what = m.permit(k, s)
	case n < 98:
		what = m.change(k)
	default:
		if k.custom.group != "" {
			what = "toggle"
			m.toggle(k)
		}
	}
	m.steps = append(m.steps, fmt.Sprintf("%s %s %s %s", what, k.resource, o.Key.Name, s))
	if n < 65 && k.installed {
		m.touch(k)
	}
}

// touch changes a claimed object a few times, while watches may take over from each other.
func (m *model) touch(k *modelKind) {
	var claimed []scopedcache.Scope
	for s := range m.claimed(k) {
		if s != scopedcache.Cluster() {
			claimed = append(claimed, s)
		}
	}
	if len(claimed) == 0 {
		return
	}
	slices.SortFunc(claimed, func(a, b scopedcache.Scope) int { return strings.Compare(a.String(), b.String()) })
	namespace, name := split(claimed[m.random.IntN(len(claimed))])
	if name == "" {
		name = objectNames[m.random.IntN(len(objectNames))]
	}
	obj := k.empty.DeepCopyObject().(client.Object)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	m.tolerate(m.admin.Create(m.Context(), obj.DeepCopyObject().(client.Object)))
	for range 3 {
		m.patch(obj)
		<-time.After(rand.N(20 * time.Millisecond))
	}
}

func (m *model) patch(obj client.Object) {
	patch := fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, m.random.IntN(1e9))
	m.tolerate(m.admin.Patch(m.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// permit grants the permissions for a scope or, if they are already granted, revokes them.
func (m *model) permit(k *modelKind, s scopedcache.Scope) string {
	if revoke := k.grants[s]; revoke != nil {
		revoke()
		delete(k.grants, s)
		return "revoke"
	}
	namespace, name := split(s)
	var names []string
	if name != "" {
		names = []string{name}
	}
	k.grants[s] = m.grantOn(k.group, k.resource, namespace, all, names...)
	return "grant"
}

// split returns the parts of a scope.
func split(s scopedcache.Scope) (namespace, name string) {
	text := s.String()
	if rest, ok := strings.CutPrefix(text, "namespace "); ok {
		return rest, ""
	}
	if rest, ok := strings.CutPrefix(text, "object "); ok {
		namespace, name, _ = strings.Cut(rest, "/")
	}
	return namespace, name
}

// change creates, changes or deletes an object.
func (m *model) change(k *modelKind) string {
	obj := k.empty.DeepCopyObject().(client.Object)
	obj.SetNamespace(m.namespaces[m.random.IntN(len(m.namespaces))])
	obj.SetName(objectNames[m.random.IntN(len(objectNames))])
	if !k.installed {
		return "nothing"
	}
	switch m.random.IntN(3) {
	case 0:
		m.tolerate(m.admin.Delete(m.Context(), obj))
		return "delete"
	case 1:
		m.patch(obj)
		return "patch"
	}
	m.tolerate(m.admin.Create(m.Context(), obj))
	return "create"
}

func (m *model) tolerate(err error) {
	m.Helper()
	if !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsMethodNotSupported(err) {
		require.NoError(m, err)
	}
}

// toggle installs or uninstalls a kind.
func (m *model) toggle(k *modelKind) {
	if k.installed {
		m.uninstall(k.crd)
	} else {
		k.crd = m.install(k.custom, apiextensionsv1.NamespaceScoped)
		m.eventually(func(ct *assert.CollectT) {
			err := m.admin.Get(m.Context(), client.ObjectKey{Namespace: m.namespaces[0], Name: "x"}, k.custom.object("", ""))
			assert.True(ct, apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) && strings.Contains(err.Error(), `"x" not found`), "%v", err)
		})
	}
	k.installed = !k.installed
}

// allowed reports whether the user may list and watch a scope.
func (k *modelKind) allowed(s scopedcache.Scope) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(k.grants)), func(g scopedcache.Scope) bool { return g.Covers(s) })
}

// claimed returns the claimed scopes of a kind.
func (m *model) claimed(k *modelKind) map[scopedcache.Scope]bool {
	out := map[scopedcache.Scope]bool{}
	for _, claims := range m.claims {
		for c := range claims {
			if c.kind == k {
				out[c.scope] = true
			}
		}
	}
	return out
}

// expected returns the possible states of the claims that cover a scope. It returns none if there are no claims.
func (m *model) expected(k *modelKind, s scopedcache.Scope) (states []scopedcache.State) {
	for c := range m.claimed(k) {
		allowed := k.allowed(c)
		switch {
		case !c.Covers(s):
		case allowed && k.installed:
			return []scopedcache.State{scopedcache.Live}
		case !k.installed && states == nil:
			// The API server checks permissions before it checks whether it serves the kind.
			states = []scopedcache.State{scopedcache.Absent, scopedcache.Denied}
		case k.installed:
			states = []scopedcache.State{scopedcache.Denied}
		}
	}
	return states
}

// check waits until the cache has the expected content.
func (m *model) check() {
	m.Helper()
	ok := assert.EventuallyWithT(m, func(ct *assert.CollectT) {
		for _, k := range m.kinds {
			m.checkKind(ct, k)
		}
	}, patience, 20*time.Millisecond)
	if !ok {
		m.Logf("after:\n%s", strings.Join(m.steps, "\n"))
		m.Fatalf("goroutines:\n%s", strings.Join(stacks(), "\n\n"))
	}
}

func (m *model) checkKind(ct *assert.CollectT, k *modelKind) {
	for o, claims := range m.claims {
		assert.Len(ct, m.Status(o), len(claims))
		for _, status := range m.Status(o) {
			if fmt.Sprintf("%T", k.empty) == fmt.Sprintf("%T", status.Claim.Kind) {
				assert.Contains(ct, claims, modelClaim{k, status.Claim.Scope})
				assert.Contains(ct, m.expected(k, status.Claim.Scope), status.State, "%s in %s: %s", k.resource, status.Claim.Scope, status.Reason)
			}
		}
	}
	assert.ElementsMatch(ct, m.expectedWatches(k), m.log.open(k.resource), "watches of %s", k.resource)
	k.mu.Lock()
	assert.Empty(ct, k.wrong, "events of %s", k.resource)
	k.mu.Unlock()
	for _, ns := range m.namespaces {
		for _, name := range objectNames {
			m.checkObject(ct, k, types.NamespacedName{Namespace: ns, Name: name})
		}
	}
}

// expectedWatches returns the claimed scopes that are allowed and that no wider claim serves.
func (m *model) expectedWatches(k *modelKind) []string {
	want := []string{}
	claimed := m.claimed(k)
	for s := range claimed {
		wider := slices.ContainsFunc(slices.Collect(maps.Keys(claimed)), func(c scopedcache.Scope) bool { return c != s && c.Covers(s) && k.allowed(c) })
		if k.installed && k.allowed(s) && !wider {
			namespace, name := split(s)
			if name != "" {
				namespace += "/" + name
			}
			want = append(want, namespace)
		}
	}
	return want
}

func (m *model) checkObject(ct *assert.CollectT, k *modelKind, key types.NamespacedName) {
	got := k.empty.DeepCopyObject().(client.Object)
	err := m.Get(m.Context(), key, got)
	what := fmt.Sprintf("%s %s: %v", k.resource, key, err)
	var not *scopedcache.NotCoveredError
	states := m.expected(k, scopedcache.Object(key.Namespace, key.Name))
	switch {
	case len(states) == 0:
		assert.ErrorAs(ct, err, &not, what)
	case !slices.Contains(states, scopedcache.Live):
		assert.Contains(ct, states, refusedState(err), what)
	default:
		want := k.empty.DeepCopyObject().(client.Object)
		wantErr := m.admin.Get(m.Context(), key, want)
		assert.Equal(ct, apierrors.IsNotFound(wantErr), apierrors.IsNotFound(err), what)
		if wantErr == nil {
			assert.NoError(ct, err, what)
			assert.Equal(ct, want.GetResourceVersion(), got.GetResourceVersion(), what)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		// After a refusal, the handler may not have received the event for a deletion.
		if wantErr == nil {
			assert.Equal(ct, want.GetResourceVersion(), k.received[key], "handler: "+what)
		}
	}
}

// refusedState returns the state to which an error corresponds.
func refusedState(err error) scopedcache.State {
	var denied *scopedcache.DeniedError
	var absent *scopedcache.AbsentError
	switch {
	case errors.As(err, &denied):
		return scopedcache.Denied
	case errors.As(err, &absent):
		return scopedcache.Absent
	}
	return ""
}
