package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	catalog   = "system:serviceaccount:remit:remit-catalog"
	extension = "system:serviceaccount:remit:remit-extension"
)

var identities = Identities{Namespace: "remit", Catalogs: "remit-catalogs", Users: []string{catalog, extension}}

func request(verb, group, resource, subresource, namespace string) Event {
	return Event{Verb: verb, User: User{Username: catalog},
		Object: &Object{APIGroup: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: "x"}}
}

// finalizers returns a patch that removes the finalizers of a ClusterServiceVersion that is being deleted.
func finalizers() Event {
	e := request("patch", operators, "clusterserviceversions", "", "t1")
	e.Sent = []byte(`{"metadata":{"finalizers":null,"resourceVersion":"7"}}`)
	e.Returned = []byte(`{"metadata":{"name":"x","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{}}`)
	e.Response.Code = 200
	return e
}

// byExtension returns a request of the program for ClusterExtensions, on the object with the given name.
func byExtension(e Event, name string) Event {
	e.User.Username, e.Object.Name = extension, name
	return e
}

// as returns a Deployment that a program creates as another user.
func as(program, impersonated string, groups ...string) Event {
	e := request("create", "apps", "deployments", "", "t1")
	e.User.Username, e.Impersonated = program, &User{Username: impersonated, Groups: groups}
	return e
}

func with(e Event, edit func(*Event)) Event {
	edit(&e)
	return e
}

func TestTheClosedListAllows(t *testing.T) {
	for name, e := range map[string]Event{
		"a status":                     request("patch", operators, "installplans", "status", "t1"),
		"an event":                     request("create", "events.k8s.io", "events", "", "t1"),
		"its lease":                    request("update", "coordination.k8s.io", "leases", "", "remit"),
		"an InstallPlan":               request("create", operators, "installplans", "", "t1"),
		"a token":                      request("create", "", "serviceaccounts", "token", "t1"),
		"a SubjectAccessReview":        request("create", "authorization.k8s.io", "subjectaccessreviews", "", ""),
		"the finalizer of a CSV":       finalizers(),
		"a conflict on a finalizer":    with(finalizers(), func(e *Event) { e.Response.Code, e.Returned = 409, nil }),
		"a killed program's finalizer": with(finalizers(), func(e *Event) { e.Response.Code, e.Returned = 499, nil }),
		"a timeout on a finalizer":     with(finalizers(), func(e *Event) { e.Response.Code, e.Returned = 504, nil }),
		"a read":                       request("list", "rbac.authorization.k8s.io", "roles", "", ""),
		"a registry's Pod":             request("create", "", "pods", "", "remit-catalogs"),
		"a registry's Service":         request("patch", "", "services", "", "remit-catalogs"),
		"a registry's ServiceAccount":  request("delete", "", "serviceaccounts", "", "remit-catalogs"),
		"a global pull secret":         request("get", "", "secrets", "", "remit-catalogs"),
		"the keys for proofs": {Verb: "patch", User: User{Username: catalog},
			Object: &Object{Resource: "secrets", Namespace: "remit", Name: "remit-proof"}},
		"watching the keys for proofs": {Verb: "watch", User: User{Username: catalog},
			Object: &Object{Resource: "secrets", Namespace: "remit", Name: "remit-proof"}},
		"a non-resource path":            {Verb: "get", RequestURI: "/version"},
		"the status of a ClusterCatalog": byExtension(request("patch", extensions, "clustercatalogs", "status", ""), "x"),
		"the label of a ClusterCatalog":  byExtension(request("patch", extensions, "clustercatalogs", "", ""), "x"),
		"the CA of the catalog server":   byExtension(request("patch", "", "configmaps", "", "remit"), "remit-catalog-content-ca"),
		"any write as a synthetic user":  as(extension, "olm:clusterextension:x", "olm:clusterextensions", "system:authenticated"),
	} {
		t.Run(name, func(t *testing.T) { require.True(t, identities.Allows(e), "%+v", e) })
	}
}

func TestTheClosedListRefuses(t *testing.T) {
	for name, e := range map[string]Event{
		"a Role":                              request("create", "rbac.authorization.k8s.io", "roles", "", "t1"),
		"a Deployment":                        request("patch", "apps", "deployments", "", "t1"),
		"a Secret":                            request("update", "", "secrets", "", "remit"),
		"another Secret in its own namespace": request("patch", "", "secrets", "", "remit"),
		"reading a tenant's Secrets":          request("list", "", "secrets", "", ""),
		"a tenant's ConfigMap":                request("create", "", "configmaps", "", "t1"),
		"reading other Secrets":               request("get", "", "secrets", "", "remit"),
		"all global pull secrets":             request("list", "", "secrets", "", "remit-catalogs"),
		"a ConfigMap in its own namespace":    request("patch", "", "configmaps", "", "remit"),
		"a Pod in its own namespace":          request("create", "", "pods", "", "remit"),
		"creating a lease":                    request("create", "coordination.k8s.io", "leases", "", "remit"),
		"a tenant's lease":                    request("update", "coordination.k8s.io", "leases", "", "t1"),
		"a tenant's Pod":                      request("create", "", "pods", "", "t1"),
		"a tenant's Service":                  request("patch", "", "services", "", "t1"),
		"the status of its own Pod":           request("patch", "", "pods", "status", "remit-catalogs"),
		"exec into its own Pod":               request("create", "", "pods", "exec", "remit-catalogs"),
		"all of its own Pods":                 request("deletecollection", "", "pods", "", "remit-catalogs"),
		"a ServiceAccount":                    request("create", "", "serviceaccounts", "", "t1"),
		"a token with a different verb":       request("patch", "", "serviceaccounts", "token", "t1"),
		"a CRD":                               request("patch", "apiextensions.k8s.io", "customresourcedefinitions", "", ""),
		"deleting an InstallPlan":             request("delete", operators, "installplans", "", "t1"),
		"the spec of an InstallPlan":          request("patch", operators, "installplans", "", "t1"),
		"the spec of an OperatorGroup":        request("update", operators, "operatorgroups", "", "t1"),
		"a status outside its API":            request("patch", "apps", "deployments", "status", "t1"),
		"a write to a non-resource path":      {Verb: "post", RequestURI: "/x"},
		"a dry run of a Role": with(request("create", "rbac.authorization.k8s.io", "roles", "", "t1"),
			func(e *Event) { e.RequestURI = "/x?dryRun=All" }),
		"a CSV without recorded objects":  request("patch", operators, "clusterserviceversions", "", "t1"),
		"a CSV that is not being deleted": with(finalizers(), func(e *Event) { e.Returned = []byte(`{"metadata":{"name":"x"}}`) }),
		"the spec of a CSV":               with(finalizers(), func(e *Event) { e.Sent = []byte(`{"metadata":{"finalizers":null},"spec":{}}`) }),
		"an annotation of a CSV":          with(finalizers(), func(e *Event) { e.Sent = []byte(`{"metadata":{"annotations":{"a":"b"}}}`) }),
		"a JSON patch of a CSV":           with(finalizers(), func(e *Event) { e.Sent = []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`) }),
		"the spec of a CSV by a killed program": with(finalizers(), func(e *Event) {
			e.Sent, e.Response.Code, e.Returned = []byte(`{"metadata":{"finalizers":null},"spec":{}}`), 499, nil
		}),
		"a refused finalizer":                  with(finalizers(), func(e *Event) { e.Response.Code = 403 }),
		"another ConfigMap":                    byExtension(request("patch", "", "configmaps", "", "remit"), "x"),
		"the CA in another namespace":          byExtension(request("patch", "", "configmaps", "", "t1"), "remit-catalog-content-ca"),
		"a ClusterExtension":                   byExtension(request("patch", extensions, "clusterextensions", "", ""), "x"),
		"another program's ClusterCatalog":     request("patch", extensions, "clustercatalogs", "", ""),
		"a synthetic user for another program": as(catalog, "olm:clusterextension:x", "olm:clusterextensions"),
		"a synthetic user in another group":    as(extension, "olm:clusterextension:x", "system:masters"),
		"another user":                         as(extension, "system:serviceaccount:remit:remit-olm"),
		"an unlisted verb":                     request("deletecollection", operators, "clusterserviceversions", "", "t1"),
	} {
		t.Run(name, func(t *testing.T) { require.False(t, identities.Allows(e), "%+v", e) })
	}
}

func TestEachOmitsAnIncompleteLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	line := `{"verb":"patch","user":{"username":"u"},"objectRef":{"resource":"pods","name":"a"},"responseStatus":{"code":201}}`
	require.NoError(t, os.WriteFile(path, []byte(line+"\n"+line[:20]), 0o600))

	var got []Event
	require.NoError(t, Each(path, func(e Event) error {
		got = append(got, e)
		return nil
	}))
	require.Len(t, got, 1)
	require.True(t, got[0].IsWrite())
	require.True(t, got[0].Created())
	require.Equal(t, "a", got[0].Object.Name)
}

func TestTheClosedListAllowsOnlyReplacingTheAccountOfCSVs(t *testing.T) {
	olm := "system:serviceaccount:remit:remit-olm"
	all := identities
	all.Users = append(slices.Clone(all.Users), olm)
	patch := func(body string) Event {
		return with(finalizers(), func(e *Event) { e.User.Username, e.Sent = olm, []byte(body) })
	}
	const content = `{"metadata":{"annotations":{"remit.dev/account":"t1/a"},"resourceVersion":"7"}}`
	require.True(t, all.Allows(patch(content)))
	for _, body := range []string{
		strings.Replace(content, "remit.dev/account", "x", 1), strings.Replace(content, `"t1/a"`, "null", 1), strings.Replace(content, `"t1/a"`, `"t1/a","b":"c"`, 1),
		strings.Replace(content, "resourceVersion", "labels", 1), `{"metadata":{"annotations":{"remit.dev/account":"t1/a"}},"spec":{}}`,
	} {
		require.False(t, all.Allows(patch(body)), body)
	}
	require.False(t, all.Allows(with(patch(content), func(e *Event) { e.User.Username = catalog })))
}

func TestTheClosedListAllowsOnlyCopiesOfCSVs(t *testing.T) {
	olm := "system:serviceaccount:remit:remit-olm"
	all := identities
	all.Users = append(slices.Clone(all.Users), olm)
	patch := func(body string) Event {
		return with(finalizers(), func(e *Event) { e.User.Username, e.Sent = olm, []byte(body) })
	}
	const content = `[{"op":"add","path":"/metadata/resourceVersion","value":"1"},{"op":"add","path":"/metadata/labels","value":{"olm.copiedFrom":"a"}},{"op":"add","path":"/spec","value":{}}]`
	require.True(t, all.Allows(patch(content)))
	for _, body := range []string{
		strings.Replace(content, "olm.copiedFrom", "x", 1), strings.Replace(content, "/spec", "/metadata/finalizers", 1),
		`[{"op":"add","path":"/spec","value":{}}]`, `{"metadata":{"labels":{"olm.copiedFrom":"a"}}}`,
	} {
		require.False(t, all.Allows(patch(body)), body)
	}
	require.False(t, all.Allows(with(patch(content), func(e *Event) { e.User.Username = catalog })))
}
