// Package echo is the API server of the sample operator's second version: echo.sample.remit.dev/v1, kind
// Echo, read-only. There is an Echo for each Greeting that the operator may see.
//
// It is an extension API server by the rules of aggregation. Requests count only from the front proxy,
// whose authority it reads from the ConfigMap kube-system/extension-apiserver-authentication (the right
// to do so comes with the auth-reader binding), and who may do what it asks by SubjectAccessReview (the
// auth-delegator binding).
package echo
