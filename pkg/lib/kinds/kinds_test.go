package kinds

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
)

// counting is a RESTMapper that counts the calls to RESTMapping.
type counting struct {
	meta.RESTMapper
	asked int
}

func (c *counting) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	c.asked++
	return c.RESTMapper.RESTMapping(kind, versions...)
}

// asking returns a function that checks an unserved version of PodDisruptionBudget and returns the number of requests
// that the check made.
func asking(t *testing.T) (asks func(version, since string) int, clock *testclock.FakePassiveClock) {
	clock = testclock.NewFakePassiveClock(time.Now())
	u := NewUnserved(clock)
	mapper := &counting{RESTMapper: meta.NewDefaultRESTMapper(nil)}
	return func(version, since string) int {
		t.Helper()
		before := mapper.asked
		isServed, err := u.Serves(mapper, schema.GroupVersionKind{Group: "policy", Version: version, Kind: "PodDisruptionBudget"}, since)
		require.NoError(t, err)
		require.False(t, isServed)
		return mapper.asked - before
	}, clock
}

func TestRequestsAnUnservedKindRarely(t *testing.T) {
	asks, clock := asking(t)
	require.Equal(t, 1, asks("v1beta1", ""))
	for range 3 {
		require.Zero(t, asks("v1beta1", ""))
	}
	require.Equal(t, 1, asks("v1beta1", "another state of the cluster"))
	clock.SetTime(clock.Now().Add(unservedFor + 1))
	require.Equal(t, 1, asks("v1beta1", ""))
}

func TestInventedVersionsCauseFewRequests(t *testing.T) {
	asks, clock := asking(t)
	require.Zero(t, asks("v1.x/y", ""), "an invalid version is not requested")
	for i := range maxRemembered + 1 {
		clock.SetTime(clock.Now().Add(time.Millisecond))
		require.Equal(t, 1, asks(fmt.Sprint("v", i), ""))
	}
	require.Zero(t, asks("v1", ""), "only the least recently used result is dropped")
	require.Equal(t, 1, asks("v0", ""))
}

// A ClusterServiceVersion can contain kinds with names of a megabyte each, and its author can change them often.
func TestOverlongKindsAreNotRemembered(t *testing.T) {
	u := NewUnserved(testclock.NewFakePassiveClock(time.Now()))
	mapper := &counting{RESTMapper: meta.NewDefaultRESTMapper(nil)}
	long := strings.Repeat("k", 1<<20)
	for _, gvk := range []schema.GroupVersionKind{{Group: "policy", Version: "v1", Kind: long}, {Group: long, Version: "v1", Kind: "Pod"}} {
		isServed, err := u.Serves(mapper, gvk, "")
		require.NoError(t, err)
		require.False(t, isServed)
	}
	require.Zero(t, mapper.asked)
	require.Empty(t, u.known.Keys())
}

// failing is a RESTMapper whose requests fail.
type failing struct {
	meta.RESTMapper
	asked int
}

func (f *failing) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	f.asked++
	return nil, errors.New("the backend does not answer")
}

// Each request to a backend that does not answer takes ten seconds, and blocks other callers of the mapper.
func TestAFailureIsCachedForTheGroup(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Now())
	u, mapper := NewUnserved(clock), &failing{}
	serves := func(group, kind, since string) {
		t.Helper()
		_, err := u.Serves(mapper, schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, since)
		require.EqualError(t, err, "discover "+group+"/v1, Kind="+kind+": the backend does not answer")
	}
	for i := range 20 {
		serves("slow.example.com", fmt.Sprint("K", i), "1")
	}
	require.Equal(t, 1, mapper.asked)
	serves("other.example.com", "K", "1")
	serves("slow.example.com", "K1", "another state")
	require.Equal(t, 3, mapper.asked)
	clock.SetTime(clock.Now().Add(failedFor + 1))
	serves("slow.example.com", "K1", "1")
	require.Equal(t, 4, mapper.asked)
}

func TestAServedKindIsRequestedOnce(t *testing.T) {
	u := NewUnserved(testclock.NewFakePassiveClock(time.Now()))
	known := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	pods := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	known.Add(pods, meta.RESTScopeNamespace)
	mapper := &counting{RESTMapper: known}
	for range 3 {
		isServed, err := u.Serves(mapper, pods, "")
		require.NoError(t, err)
		require.True(t, isServed)
		found, err := u.Kind(mapper, pods.GroupKind(), "")
		require.NoError(t, err)
		require.Equal(t, pods, found.GroupVersionKind)
	}
	require.Equal(t, 2, mapper.asked)
}
