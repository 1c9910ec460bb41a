// Package hooks installs everything through which an API server calls an operator: its webhooks, conversions and
// APIs, with their Services and certificates. It combines the packages webhook, apiservice, serving and cert.
//
// [New] derives a [Plan] from a ClusterServiceVersion without side effects. [Gather] reads the live objects from a
// cache. [Installer] applies the differences between the two, one Deployment at a time, with a client that is
// authenticated as the account:
//
//	Certify   before the Deployment: its Service and certificates, and their rotation
//	Off       before the Deployment is rolled: switches off webhooks whose description changes
//	Ensure    when the Deployment is ready: its webhooks, conversions and APIs
//	Prune     when all Deployments are ready: deletes objects that the plan does not contain
//	Reset     when the ClusterServiceVersion is deleted: removes the conversions that [Remains] returns
//
// [Plan.Needs] returns the permissions that the account needs for all of this.
package hooks
