package clusterextension

import (
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// memory contains what the controller remembers about each ClusterExtension, by name, so that it does not repeat requests.
type memory struct {
	keyed.Map[string, remembered]
	places places

	// finishing is locked while a run ends. uses counts these ends.
	finishing sync.Mutex
	uses      uint64
}

type remembered struct {
	uid     types.UID
	content *content
	// previous is the content of the installed version while another one is to be installed. Its key is the name of the bundle.
	previous *content
	// running is true during a run, and used is the number of the last run that ended. forgot is true after contents were forgotten
	// although the extension may need them.
	running bool
	used    uint64
	forgot  bool
	// measured is the cost of a content that could not be parsed yet.
	measured measured
	pass     *pass
	// keeping is the state of the ConfigMap with the content of the installed version.
	keeping keeping
	report  published
	saved   savedStatus
	// unsaved is the condition that reports a removal, if the status with it could not be saved: the removal cannot be determined
	// afterwards.
	unsaved *metav1.Condition
	// delay is the current delay between attempts after a refusal.
	delay time.Duration
	// finalizing is true after the finalization of a deleted extension has begun. failingSince is the time of the first
	// failure since the last success, or zero if the last attempt succeeded.
	finalizing   bool
	failingSince time.Time
	// awaitsKinds is true if a CustomResourceDefinition or APIService may resolve what the extension waits for.
	awaitsKinds bool
	// awaitsCatalogs is true if a change to any catalog may affect the extension. catalogs are the catalogs that had the
	// package.
	awaitsCatalogs bool
	catalogs       []string
	// images are the bundle images whose content was requested.
	images []string
	// accounts are the ServiceAccounts that were looked up. An entry without a name represents all ServiceAccounts of
	// its namespace.
	accounts []types.NamespacedName
	// certificates are the Deployments' certificates, without private keys. certifyAt is the time of the next check.
	certificates map[string]cert.Set
	certifyAt    time.Time
	// issuedFor is the key of the extension in hooks.Memory.
	issuedFor types.NamespacedName
	// served contains the resource versions of the Services and Secrets for the certificates of the Deployments, keyed by keyOf.
	served map[string]uint64
	// probed are references (probeOf) to the objects of the installed version that determine the condition Available, and probedFor
	// is the hash of that install.
	probed    []*unstructured.Unstructured
	probedFor string
	// examined are the objects of earlier versions that were read.
	examined examined
	// comparisons contains the permissions that changes to CustomResourceDefinitions require, by name.
	comparisons map[string]comparison
}

// content is the parsed content of a bundle.
type content struct {
	// key identifies the bundle and the version of the catalog's content.
	key string
	// name is the name of the bundle in the catalog, and digest that of its manifests; "" if it was read from where it is kept.
	name, digest string
	bundle       *bundle.Bundle
	// cost is the estimated memory of the bundle.
	cost int64
}

// isOf reports whether the content is that of a bundle, and was read from a catalog.
func (c *content) isOf(b *bundle.Bundle) bool { return c != nil && c.bundle == b && c.digest != "" }

// setContent replaces the content. It keeps the content of the installed version as previous, because that version
// remains installed until the new one is.
func (is *remembered) setContent(c *content, installed *olmv1.ClusterExtensionInstallStatus) {
	if was := is.content; was != nil && installed != nil && was.name == installed.Bundle.Name && c.name != installed.Bundle.Name {
		is.previous = &content{key: installed.Bundle.Name, name: was.name, digest: was.digest, bundle: was.bundle, cost: was.cost}
	}
	is.content = c
}

// restoreContent makes the content of the installed version the current one, if it is known.
func (is *remembered) restoreContent(installed string) {
	if is.previous != nil && is.previous.key == installed && (is.content == nil || is.content.name != installed) {
		is.content, is.previous = is.previous, nil
	}
}

// published identifies the last report. where describes its location or, if it could not be written, the reason.
type published struct {
	hash  string
	where message.Text
	// retryAt is the time of the next attempt to write a report that could not be written, and delay is the time between the last
	// attempt and the next. Both are zero after a success.
	retryAt time.Time
	delay   time.Duration
}

// savedStatus contains the resource version of the extension after its status was patched, and the time of the patch.
type savedStatus struct {
	version uint64
	at      time.Time
}

// maxCacheLag is how long the cache may show an extension as it was before its status was patched. If the cached
// resource version is still smaller after that time, there is another reason, such as a restored backup.
const maxCacheLag = 10 * time.Second

// pass records what was done to reach one desired state. Only reconciles of its extension change it.
type pass struct {
	hash string
	// tried is true after the API server accepted all objects in a dry run.
	tried bool
	// completed is true after all objects were available, and the objects of earlier versions were removed.
	completed bool
	// begun is when the first object was written.
	begun time.Time
	// marks are the objects that were found in, or brought to, the desired state, keyed by apply.Describe.
	marks map[string]*mark
}

// mark identifies the state of an object when it was last found in, or brought to, the desired state.
type mark struct {
	// desired is the hash of the desired object.
	desired    string
	uid        types.UID
	version    uint64
	generation int64
	at         time.Time
	// seen is true after a watch has reported the object.
	seen bool
	// edits describes the fields that other clients have changed, and that are kept.
	edits []string
	// pause is the minimum time before the object is restored again. It increases while other clients keep changing the object.
	pause time.Duration
}

// firstPause and lastPause limit the pauses between restorations of an object.
const (
	firstPause = time.Second
	lastPause  = 5 * time.Minute
)

// follows sets the pause of a mark that replaces another one of the same object. The first restoration is immediate; the pause
// doubles with each further one, until the object has not been changed for some time.
func (m *mark) follows(was *mark, isRestored bool) {
	switch {
	case was == nil || was.desired != m.desired || m.at.Sub(was.at) > 2*lastPause:
	case isRestored:
		m.pause = min(max(2*was.pause, firstPause), lastPause)
	default:
		m.pause = was.pause
	}
}

func markOf(live *unstructured.Unstructured, desired string, now time.Time) *mark {
	return &mark{desired: desired, uid: live.GetUID(), version: versionOf(live), generation: live.GetGeneration(), at: now}
}

// versionOf returns the resource version of an object, which the API server increases with each change, or 0 if it is
// not a number.
func versionOf(obj metav1.Object) uint64 {
	v, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// passFor returns the pass for a desired state. A change to the desired state begins a new pass.
func (m *memory) passFor(name, hash string) *pass {
	return m.Change(name, func(is *remembered) {
		if is.pass == nil || is.pass.hash != hash {
			is.pass = &pass{hash: hash, marks: map[string]*mark{}}
		}
	}).pass
}

// firstRetry and lastRetry limit the delays between attempts after a refusal whose cause is not watched. The delay
// doubles with each attempt. After the cause is removed, the next attempt is therefore made after at most the time for
// which the cause existed.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Minute
)

// nextDelay returns the delay until the next attempt.
func (m *memory) nextDelay(name string) time.Duration {
	return m.Change(name, func(is *remembered) { is.delay = longer(is.delay) }).delay
}

// longer returns the delay that follows the given one.
func longer(delay time.Duration) time.Duration { return min(max(2*delay, firstRetry), lastRetry) }

// beginFinalizing resets the delay when the finalization of a deleted extension begins: delays of the install do not apply to it.
func (m *memory) beginFinalizing(name string) {
	m.Change(name, func(is *remembered) {
		if !is.finalizing {
			is.finalizing, is.delay = true, 0
		}
	})
}

// failingFor returns for how long the finalization of a deleted extension has failed.
func (m *memory) failingFor(name string, err error, now time.Time) time.Duration {
	since := m.Change(name, func(is *remembered) {
		switch {
		case err == nil:
			is.failingSince = time.Time{}
		case is.failingSince.IsZero():
			is.failingSince = now
		}
	}).failingSince
	if since.IsZero() {
		return 0
	}
	return now.Sub(since)
}

func (m *memory) resetDelay(name string) {
	m.Change(name, func(is *remembered) { is.delay = 0 })
}
