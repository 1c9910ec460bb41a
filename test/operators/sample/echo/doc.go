// Package echo is the API server of the sample operator's second version: echo.sample.remit.dev/v1, kind Echo,
// read-only. There is one Echo for each Greeting that the operator can read.
//
// The server is an extension API server that follows the rules of API aggregation. It accepts requests only from the
// front proxy, whose CA it reads from the ConfigMap kube-system/extension-apiserver-authentication (allowed by the
// auth-reader binding), and authorizes users with SubjectAccessReviews (allowed by the auth-delegator binding).
package echo
