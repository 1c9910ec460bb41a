// Package hooks installs everything through which an API server calls an operator: its webhooks, conversions and
// APIs, with their Services and certificates. It combines the packages webhook, apiservice, serving and cert.
//
// [New] derives a [Plan] from a ClusterServiceVersion and is pure. [Gather] reads the live objects from a cache.
// [Installer] applies the difference, one Deployment at a time, with a client that is authenticated as the account:
//
//	Certify   before the Deployment: its Service and certificates, and their rotation
//	Off       before the Deployment is rolled: switches off webhooks whose address changes
//	Ensure    when the Deployment is ready: its webhooks, conversions and APIs
//	Prune     when all are ready: deletes what only the previous version had
//	Remove    when the ClusterServiceVersion is deleted
//
// [Plan.Needs] returns what the account must be allowed to do for all of this.
package hooks
