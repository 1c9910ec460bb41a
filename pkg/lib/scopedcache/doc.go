// Package scopedcache is a cache.Cache of controller-runtime for operators that may see only a part of the cluster, and
// whose permissions change while they run.
//
// A Cache watches a kind only where a claim asks for it, and only as long: in the whole cluster, in a namespace, or a single
// object, all three for one kind at once. A claim belongs to an owner, usually the custom resource that is being
// reconciled, and ends with Release, with the next session of the owner (Begin), or with the deletion of the owner. Reads
// with WithOwner claim what they read. The watches follow: each object is watched once, by the widest claim that is
// allowed; when a wider watch comes or goes, the other takes over without a gap and without events for what did not
// change.
//
// # Reads
//
// Get and List answer from memory. NotFound means that the object does not exist, and is only returned while a watch
// shows that. Otherwise the error says what is wrong:
//
//   - NotCoveredError: no claim covers what was read.
//   - DeniedError: the identity may not list or watch it. It names the verbs, the resource and the scope, and
//     apierrors.IsForbidden is true for it.
//   - AbsentError: the API server does not serve the kind. meta.IsNoMatchError is true for it. An identity without
//     permissions for the kind may get a DeniedError instead, because the API server checks these first.
//   - NotSyncedError: the first list has not come yet, or the watch is interrupted and the object is not known. Read again.
//
// # Permissions
//
// The request is the test: no access review is asked. A refused watch is retried with backoff, within
// a budget for the whole cache, so a new permission is noticed without a restart. A permission that is revoked is
// noticed when the watch is requested again (Options.RecheckPeriod), or immediately with Options.WatchRBAC, ReportForbidden or
// Recheck. Then the objects are forgotten: reads return a DeniedError, and Changes enqueues the owners. Handlers are not
// told of deletions, because nothing was deleted.
//
// # Handlers
//
// GetInformer returns the one informer of a kind, to which For, Owns and Watches of a controller add handlers. They
// receive each change of an object once, whichever claims cover it. Only the primary kinds (Options.Primary), which the operator reconciles, are
// claimed by GetInformer itself, in the whole cluster.
//
// # Limits
//
// A kind has one label selector (Options.ByKind) in all its scopes. There is one cache for each identity. Typed,
// unstructured and metadata-only objects of a kind are stored and watched apart, as in controller-runtime.
package scopedcache
