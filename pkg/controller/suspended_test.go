package controller

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

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
	}
	j, err := journal.Open(path, clock)
	require.NoError(t, err)
	j.Begin(journal.Item{Group: "ns2", Name: "csv/ns2/a"})
	recorder := events.NewFakeRecorder(10)
	require.NoError(t, reporting(recorder, j)(t.Context()))
	require.Len(t, recorder.Events, 2)
	for range 2 {
		require.Regexp(t, `^Warning Suspended Remit's program ended 3 times while it worked on objects of this namespace, 0 of these times on no others: until 2001-09-09T01:\d\d:\d\dZ, it continues`, <-recorder.Events)
	}
	require.Equal(t, &corev1.ObjectReference{APIVersion: "operators.coreos.com/v1alpha1", Kind: "ClusterServiceVersion", Namespace: "ns", Name: "a"},
		referenceTo(journal.Suspect{Item: journal.Item{Name: "csv/ns/a"}}))
	require.Equal(t, &corev1.ObjectReference{APIVersion: "olm.operatorframework.io/v1", Kind: "ClusterExtension", Name: "e"},
		referenceTo(journal.Suspect{Item: journal.Item{Name: "clusterextension/e"}}))
	require.NoError(t, reporting(nil, nil)(t.Context()))
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
