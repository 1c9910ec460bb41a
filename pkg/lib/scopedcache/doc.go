// Package scopedcache provides a controller-runtime cache.Cache for operators that have permissions for only a part of
// the cluster, and whose permissions change while they run.
//
// A Cache watches a kind only in the scopes of claims, and only as long as the claims exist. The scope of a claim is the
// whole cluster, a namespace, or a single object; one kind can have claims with different scopes. A claim belongs to an
// owner, usually the custom resource that is being reconciled, and ends with Release, with the next session of the owner
// (Begin), or when the owner is deleted. Reads with WithOwner claim what they read. Each object is watched once, by the
// widest claim that is allowed. When a wider watch starts or ends, watches take over from each other without a gap, and
// handlers receive no events for objects that did not change.
//
// # Reads
//
// Get and List read from memory. NotFound means that the object does not exist, and is returned only while a watch
// shows that. The other errors are:
//
//   - NotCoveredError: no claim covers the read.
//   - DeniedError: the identity is not allowed to list or watch the objects. The error names the verbs, the resource and
//     the scope, and apierrors.IsForbidden is true for it.
//   - AbsentError: the API server does not serve the kind. meta.IsNoMatchError is true for it. An identity without
//     permissions for the kind may get a DeniedError instead, because the API server checks permissions first.
//   - NotSyncedError: the first list is not complete, or the watch is interrupted and objects may be missing. In these
//     cases, List always returns this error, and Get returns it if the cache does not have the object. Retry later. A
//     watch also counts as interrupted if the API server does not respond within 3 s when the watch is requested again.
//
// # Permissions
//
// The cache sends no access reviews: the list and watch requests themselves show whether they are allowed. A refused watch
// is retried with backoff, within a budget for the whole cache, so new permissions are noticed without a restart. A revoked
// permission is noticed when the watch is requested again (Options.RecheckPeriod), or within 2 s with Options.WatchRBAC,
// ReportForbidden or Recheck. The cache then drops the objects, reads return a DeniedError, and Changes enqueues the
// owners. Handlers receive no delete events, because no objects were deleted.
//
// # Handlers
//
// GetInformer returns the only informer of a kind. For, Owns and Watches of a controller add handlers to it, which receive each
// change to an object once, no matter how many claims cover it. GetInformer claims only primary kinds (Options.Primary), which
// are the kinds that the operator reconciles. It claims them cluster-wide.
//
// # Limits
//
// A kind has one label selector (Options.ByKind) in all scopes. Each identity needs its own cache. Typed, unstructured
// and metadata-only objects of a kind are stored and watched separately, as in controller-runtime.
package scopedcache
