// Package hooks installs all by which an API server calls an operator: its webhooks, conversions and
// APIs, with the Services and certificates that they are served by. It brings together the packages
// webhook, apiservice, serving and cert.
//
// [New] makes a [Plan] of a ClusterServiceVersion, which is pure. [Gather] reads, from a cache, what there
// is of it. [Installer] makes the difference go away, one Deployment at a time, with a client that is
// authenticated as the account:
//
//	Certify   before the Deployment: its Service and certificates, and their rotation
//	Off       before the Deployment is rolled: nobody calls what is about to change its address
//	Ensure    once the Deployment is ready: its webhooks, conversions and APIs
//	Prune     once all are: what the version before had and this one has not
//	Remove    when the ClusterServiceVersion goes
//
// [Plan.Needs] says what an account must hold for all that.
package hooks
