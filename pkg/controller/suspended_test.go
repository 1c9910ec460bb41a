package controller

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/journal"
)

func TestReportsSuspendedObjects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	var j *journal.Journal
	for range 3 {
		var err error
		j, err = journal.Open(path, clock)
		require.NoError(t, err)
		j.Wait(journal.Item{})
		clock.Step(2 * time.Minute)
		j.Begin(journal.Item{Group: "ns", Name: "csv/ns/a"})
		j.Begin(journal.Item{Group: "e", Name: "clusterextension/e"})
		j.Begin(journal.Item{Group: "images", Name: "pull/images"})
		j.Begin(journal.Item{Group: "many", Name: "subscription/many"})
		j.Begin(journal.Item{Group: "empty", Name: "subscription/empty"})
	}
	j, err := journal.Open(path, clock)
	require.NoError(t, err)
	j.Begin(journal.Item{Group: "ns2", Name: "csv/ns2/a"})
	recorder := events.NewFakeRecorder(10)
	listed := &listing{names: map[string]string{"CatalogSourceList images": "catalog", "SubscriptionList many": "sub"}}
	require.NoError(t, reporting(recorder, listed, j)(t.Context()))
	require.Equal(t, []string{"SubscriptionList empty", "CatalogSourceList images", "SubscriptionList many"}, listed.read)
	require.Len(t, recorder.Events, 4)
	for range 4 {
		require.Regexp(t, `^Warning Suspended Remit's program ended 3 times while it worked on objects of this namespace, 0 of these times on no others: until 2001-09-09T01:\d\d:\d\dZ, it continues`, <-recorder.Events)
	}
	require.Equal(t, &corev1.ObjectReference{APIVersion: "operators.coreos.com/v1alpha1", Kind: "ClusterServiceVersion", Namespace: "ns", Name: "a"},
		referenceTo(journal.Suspect{Item: journal.Item{Name: "csv/ns/a"}}))
	require.Equal(t, &corev1.ObjectReference{APIVersion: "olm.operatorframework.io/v1", Kind: "ClusterExtension", Name: "e"},
		referenceTo(journal.Suspect{Item: journal.Item{Name: "clusterextension/e"}}))
	require.NoError(t, reporting(nil, nil, nil)(t.Context()))
}

// listing is a reader of metadata. names contains the names of objects by the kind of their list and their namespace.
type listing struct {
	client.Reader

	names map[string]string
	read  []string
}

func (l *listing) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	key := list.GetObjectKind().GroupVersionKind().Kind + " " + o.Namespace
	l.read = append(l.read, key)
	if name := l.names[key]; name != "" && o.Limit == 1 {
		list.(*metav1.PartialObjectMetadataList).Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name}}}
	}
	return nil
}

// At first, the events were about Subscriptions in no namespace, and Namespaces, about which a policy denies events.
func TestASuspendedNamespaceIsReportedAtAnObject(t *testing.T) {
	listed := &listing{names: map[string]string{
		"SubscriptionList ns": "sub", "OperatorGroupList ns": "group", "CatalogSourceList ns": "catalog",
	}}
	for name, want := range map[string]string{
		"subscription/ns": "operators.coreos.com/v1alpha1 Subscription ns/sub", "operator/ns": "operators.coreos.com/v1 OperatorGroup ns/group",
		"pull/ns": "operators.coreos.com/v1alpha1 CatalogSource ns/catalog", "operatorgroup/ns/": "operators.coreos.com/v1 OperatorGroup ns/group",
	} {
		ref := referenceTo(journal.Suspect{Item: journal.Item{Group: "ns", Name: name}})
		require.Empty(t, ref.Name, name)
		ref = anyOf(t.Context(), listed, ref)
		require.Equal(t, want, ref.APIVersion+" "+ref.Kind+" "+ref.Namespace+"/"+ref.Name)
	}
	for _, kind := range kindsOf() {
		require.Contains(t, []string{"operators.coreos.com", "olm.operatorframework.io"}, kind.Group, "a policy denies other events")
	}
}

// extensions is a cache of ClusterExtensions. It contains their namespaces by their names.
type extensions struct {
	cache.Cache

	namespaces map[string]string
}

func (e extensions) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	namespace, ok := e.namespaces[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "clusterextensions"}, key.Name)
	}
	obj.(*olmv1.ClusterExtension).Spec.Namespace = namespace
	return nil
}

// withCache is a manager that has only a cache.
type withCache struct {
	ctrl.Manager

	cache cache.Cache
}

func (c withCache) GetCache() cache.Cache { return c.cache }

// At first, each ClusterExtension was a group, so that a new name was never suspect.
func TestTheGroupOfAClusterExtensionIsItsNamespace(t *testing.T) {
	m := journaled{Manager: withCache{cache: extensions{namespaces: map[string]string{"x1": "ns", "x2": "ns"}}}}
	for name, want := range map[string]string{"x1": "ns", "x2": "ns", "deleted": "/deleted"} {
		require.Equal(t, want, m.Group("clusterextension", kit.Request("", name)))
	}
	require.Empty(t, m.Group("clustercatalog", kit.Request("", "operatorhub")), "administrators write it")
}

// The group of a request is the namespace that it stands for, whichever controller it is for.
func TestTheGroupOfARequestIsItsNamespace(t *testing.T) {
	m := journaled{}
	for controller := range kindsOf() {
		if !strings.HasPrefix(controller, "cluster") {
			require.Equal(t, "ns", m.Group(controller, kit.Request("ns", "a")), controller)
		}
	}
	require.Equal(t, "ns", m.Group("subscription", kit.Request("", "ns")))
	require.Equal(t, "ns", m.Group("operator", kit.Request("", "ns")))
	require.Equal(t, "/cluster", m.Group("olmconfig", kit.Request("", "cluster")))

	// A controller whose requests are namespaces has to be known.
	files, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	made := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), `kit.Request("", `) {
			made[filepath.Dir(file)] = true
		}
	}
	delete(made, "clusterextension")
	require.Equal(t, map[string]bool{"subscription": true, "operator": true}, made)
}

// The reports name the object on which a controller worked.
func TestTheKindOfEveryControllerIsKnown(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	named := regexp.MustCompile(`Named\((?:"(\w+)"|(\w+))\)|controllerName += "(\w+)"`)
	found := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			if name := match[1] + match[3]; name != "" {
				require.Contains(t, kindsOf(), name, file)
				found[name] = true
			}
		}
	}
	require.Len(t, found, len(kindsOf()))
}

func TestControllersHaveTheJournal(t *testing.T) {
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal"), clocktesting.NewFakeClock(time.Unix(1e9, 0)))
	require.NoError(t, err)
	mgr, err := NewManager(apiServer(t, nil), ManagerOptions{UserAgent: "test", Namespace: "remit", Journal: j})
	require.NoError(t, err)
	require.Same(t, j, journalOf(mgr))
	require.Same(t, j, mgr.(fairqueue.Journaled).Journal())
}
