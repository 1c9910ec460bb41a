package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/extension/resolve"
	"github.com/remit-olm/remit/pkg/install/requirement"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// run is the state that the phases of one reconcile share.
type run struct {
	*Reconciler
	// saved is the extension as the API server stores it; ext includes the changes of this run.
	saved, ext *olmv1.ClusterExtension

	identity scoped.Identity
	// permissions contains the permissions of the identity by namespace.
	permissions *rbac.Recent[string]
	// lookups look up which kinds the cluster serves.
	lookups *requirement.Lookups
	// unusable is the reason why the identity cannot be used yet, or nil: the identity does not exist or is not enrolled.
	unusable *scoped.Error
	// accountSince is when the ServiceAccount was created. recreated is true if its namespace was created, perhaps again, after the
	// spec was written.
	accountSince metav1.Time
	recreated    bool
	resolved     resolve.Result
	bundle       *bundle.Bundle
	// parsed contains the estimated memory of the contents that this run has parsed, by key.
	parsed map[string]int64
	// waits is true if the run must wait until others with costly contents have ended.
	waits    bool
	owner    ownerutil.Owner
	rendered *render.Rendered
	// steps are the rendered objects. hashes contains the hash of each object. hash identifies all objects, without certificates,
	// and the identity.
	steps  []step.Step
	hashes map[*unstructured.Unstructured]string
	hash   string

	// findings lists the known obstacles to the steps. checked is true if the permissions were determined.
	findings preflight.Report
	checked  bool
	// overreach is what the extension's webhooks intercept although the identity does not permit it, and what happens to them.
	overreach struct {
		reason string
		text   message.Text
	}
	// unpublished is the error from writing the report, if a retry may succeed.
	unpublished error

	executor *execute.Executor
	states   map[*unstructured.Unstructured]execute.State
	// due are the steps whose objects are not in the desired state.
	due []step.Step
	// paused are the objects whose restoration is paused.
	paused []string
	// pass records what was done to reach the desired state.
	pass *pass
	// reset are the names of the CustomResourceDefinitions whose conversions this run has reset, because the cache may still show
	// the conversions.
	reset map[string]bool
	// certified is true after this run checked the certificates.
	certified bool
	// available is the condition Available, or nil if this run did not determine it.
	available *metav1.Condition
	// unobserved is the reason why this run cannot observe the objects of the installed version, or "".
	unobserved string
	// awaitsKinds is true if a CustomResourceDefinition, an APIService or another extension may resolve what the run waits for.
	awaitsKinds bool
	// used are the catalogs that have the package, and images the bundle images whose content was requested.
	used, images []string
	// accounts are the ServiceAccounts that were looked up, as in remembered.
	accounts []types.NamespacedName
	// after is the delay until the next reconcile if no event triggers one earlier; zero means that none is scheduled.
	after time.Duration
}

func newRun(r *Reconciler, ext *olmv1.ClusterExtension) *run {
	if is := r.memory.Get(ext.Name); is.uid != "" && is.uid != ext.UID {
		r.forget(ext.Name)
	}
	// Until the run ends, what the extension waits for is unknown.
	is := r.memory.Change(ext.Name, func(is *remembered) {
		is.uid, is.awaitsKinds, is.awaitsCatalogs, is.running = ext.UID, true, true, true
	})
	s := &run{
		Reconciler: r, saved: ext, ext: ext.DeepCopy(), states: map[*unstructured.Unstructured]execute.State{},
		reset: map[string]bool{},
	}
	if is.unsaved != nil {
		meta.SetStatusCondition(&s.ext.Status.Conditions, *is.unsaved)
	}
	s.lookups = s.world().Lookups()
	return s
}

// phase is one part of a run. The run continues with the next phase, waits without an error, or fails.
type phase func(ctx context.Context, s *run) (outcome, error)

// outcome is the result of a phase that did not fail. The zero value continues with the next phase.
type outcome struct {
	stopped bool
	// progressing is the condition Progressing of a run that stopped, without the message.
	progressing metav1.Condition
	message     message.Text
}

func proceed() outcome { return outcome{} }

func stop(value metav1.ConditionStatus, reason string, text message.Text) outcome {
	return outcome{stopped: true, progressing: metav1.Condition{Status: value, Reason: reason}, message: text}
}

// waiting stops a run that may continue without a change to the spec.
func waiting(text message.Text) outcome {
	return stop(metav1.ConditionTrue, olmv1.ReasonRetrying, text)
}

// blocked stops a run until a user fixes the problem.
func blocked(text message.Text) outcome {
	return stop(metav1.ConditionFalse, olmv1.ReasonBlocked, text)
}

// rolling stops a run until what was applied becomes available.
func rolling(text string) outcome {
	return stop(metav1.ConditionTrue, olmv1.ReasonRollingOut, message.Line(text))
}

// succeeded stops a run that has nothing to do.
func succeeded(text string) outcome {
	return stop(metav1.ConditionTrue, olmv1.ReasonSucceeded, message.Line(text))
}

func (s *run) runPhases(ctx context.Context, phases ...phase) (out outcome, err error) {
	for i := 0; i < len(phases) && err == nil && !out.stopped; i++ {
		out, err = phases[i](ctx, s)
	}
	return out, err
}

// wakeAfter schedules the next reconcile, unless an earlier one is scheduled.
func (s *run) wakeAfter(d time.Duration) {
	if d > 0 && (s.after == 0 || d < s.after) {
		s.after = d
	}
}

// noteAccount records that the result depends on the existence of a ServiceAccount or, if the name is "", of all ServiceAccounts
// in the namespace. From then on, their creation and deletion wake the extension, until a run ends without looking them up.
func (s *run) noteAccount(account types.NamespacedName) {
	if !slices.Contains(s.accounts, account) {
		s.accounts = append(s.accounts, account)
	}
	s.memory.Change(s.key(), func(is *remembered) {
		if !slices.Contains(is.accounts, account) {
			is.accounts = append(slices.Clip(is.accounts), account)
		}
	})
}

func (s *run) key() string { return s.ext.Name }

func (s *run) now() metav1.Time { return metav1.NewTime(s.Clock.Now()) }

// isInstalled reports whether the resolved bundle is the installed one.
func (s *run) isInstalled() bool {
	return assess.IsInstalled(s.ext, s.resolved.Bundle)
}

// errStale means that the cached ClusterExtension is outdated. It is reconciled again when the cache is up to date.
var errStale = errors.New("the ClusterExtension has changed since it was read")

// checkCurrent reads the extension again, live, before anything is written for it.
func (s *run) checkCurrent(ctx context.Context) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(olmv1.GroupVersion.WithKind(olmv1.KindClusterExtension))
	exists, err := apply.Read(ctx, s.Live, client.ObjectKey{Name: s.ext.Name}, live)
	if err == nil && (!exists || live.UID != s.ext.UID || (live.DeletionTimestamp == nil) != (s.ext.DeletionTimestamp == nil) || live.Generation != s.ext.Generation) {
		return errStale
	}
	return err
}

// save patches the status if it has changed. saved is false if the cache was outdated. The report of a removal is kept for the
// next run if it was not saved.
func (s *run) save(ctx context.Context) (saved bool, err error) {
	saved, err = s.patch(ctx)
	s.memory.Change(s.key(), func(is *remembered) {
		is.unsaved = nil
		if now := meta.FindStatusCondition(s.ext.Status.Conditions, olmv1.TypeExceedsIdentity); !saved && now != nil && now.Reason == olmv1.ReasonRemoved {
			is.unsaved = now
		}
	})
	return saved, err
}

func (s *run) patch(ctx context.Context) (saved bool, err error) {
	if equality.Semantic.DeepEqual(s.saved, s.ext) {
		return true, nil
	}
	if was := s.memory.Get(s.key()).saved; versionOf(s.saved) < was.version && s.Clock.Since(was.at) < maxCacheLag {
		return false, nil // the API server would refuse the patch
	}
	err = status.Patch(ctx, s.Client, s.saved, s.ext)
	switch {
	case apierrors.IsConflict(err):
		return false, nil
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("ClusterExtension: %w", err)
	}
	s.saved = s.ext.DeepCopy()
	s.memory.Change(s.key(), func(is *remembered) { is.saved = savedStatus{versionOf(s.saved), s.Clock.Now()} })
	return true, nil
}
