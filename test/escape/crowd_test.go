package escape

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/escape/forge"
)

const (
	// crowdSize is the number of healthy namespaces, and hostileNamespaces the number of attacking namespaces.
	crowdSize         = 20
	hostileNamespaces = 4
	// edits is the maximum number of writes by a hostile author, who writes once per editPause.
	edits     = 600
	editPause = 100 * time.Millisecond
	// links is the number of CSVs in a hostile author's chain.
	links = 20
)

// crowdFigure is the measurement of row 190. It is printed at the end of a run.
var crowdFigure string

// crowds returns rows about many namespaces at the same time.
func crowds() []row {
	return []row{
		{number: "190", title: "four namespaces that attack in every way, and twenty healthy installs", holds: p0(), long: true, play: func(s *scene) {
			healthy := s.crowd(0)
			alone := s.installAll(healthy)

			healthy = s.crowd(1)
			done := make(chan struct{})
			var hostile sync.WaitGroup
			for i := range hostileNamespaces {
				attacker := s
				if i > 0 {
					attacker = s.beside(i)
				}
				author := attacker.attack()
				hostile.Go(func() { attacker.churn(author, done) })
			}
			beside := s.installAll(healthy)
			close(done)
			hostile.Wait()
			crowdFigure = fmt.Sprintf("%d installs took %s alone and %s next to %d hostile namespaces (%.2f times as long)",
				crowdSize, alone.Round(time.Millisecond), beside.Round(time.Millisecond), hostileNamespaces, beside.Seconds()/alone.Seconds())
		}},
	}
}

// crowd creates healthy namespaces, each with a catalog that is READY.
func (s *scene) crowd(n int) []*scene {
	s.T.Helper()
	var out []*scene
	for i := range crowdSize {
		one := s.beside(100*(n+1) + i)
		one.group(one.Namespace)
		one.publish(bundleOf(csv()))
		out = append(out, one)
	}
	for _, one := range out {
		requireReady(one.Tenant, "catalog")
	}
	return out
}

// installAll subscribes in all namespaces and returns the time until the last operator is installed.
func (s *scene) installAll(all []*scene) time.Duration {
	s.T.Helper()
	begun := time.Now()
	for _, one := range all {
		one.subscribe()
	}
	pending := slices.Clone(all) // a list of the whole cluster would contain the hostile CSVs, which are large
	s.Eventually(func(c *assert.CollectT) {
		pending = slices.DeleteFunc(pending, func(one *scene) bool {
			csv := &operatorsv1alpha1.ClusterServiceVersion{}
			err := cluster.Client.Get(s.T.Context(), types.NamespacedName{Namespace: one.Namespace, Name: probeCSV}, csv)
			assert.NoError(c, client.IgnoreNotFound(err))
			return csv.Status.Phase == succeeded
		})
		assert.Empty(c, pending)
	})
	return time.Since(begun)
}

// attack creates objects that keep each of Remit's controllers busy: a dependency problem that no solver can finish, registries
// that never end their streams, a chain of ClusterServiceVersions, and rules that exceed the limits. It returns the author's
// client.
func (s *scene) attack() client.Client {
	s.T.Helper()
	author := s.csvAuthor()
	s.asksForPigeons()
	endless := s.Serve("trickling", &trickling{begun: make(chan struct{}, 1)})
	for i := range 5 {
		catalogAt(s.Tenant, fmt.Sprintf("trickling-%d", i), endless)
	}
	for i := range links {
		link := forge.NewCSV(linkName(i)).RenameObjects(fmt.Sprintf("chain-%d", i))
		if i > 0 {
			link = link.Set(linkName(i-1), "spec", "replaces")
		}
		require.NoError(s.T, s.apply(author, link.Object))
	}
	for i := range hugeCSVs {
		huge := forge.NewCSV(hugeName(i)).RenameObjects(fmt.Sprint("huge", i)).Permissions(forge.Entry(fmt.Sprint("huge", i), reads("endpoints", 0, hugeNames)))
		require.NoError(s.T, s.apply(author, huge.Object))
	}
	return author
}

// churn edits the chain as the author until done is closed. Each edit wakes the controllers for the namespace.
func (s *scene) churn(author client.Client, done <-chan struct{}) {
	every := time.NewTicker(editPause)
	defer every.Stop()
	for i := range edits {
		select {
		case <-done:
			assert.Positive(s.T, i, "the author has written")
			return
		case <-every.C:
		}
		err := s.edit(author, linkName(i%links), i)
		if apierrors.IsNotFound(err) { // replaced, and therefore deleted
			err = s.edit(author, linkName(links-1), i)
		}
		if !assert.NoError(s.T, err) {
			return
		}
	}
}

// edit changes the description of a CSV as the author.
func (s *scene) edit(author client.Client, name string, i int) error {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Namespace, csv.Name = s.Namespace, name
	patch := fmt.Sprintf(`{"spec":{"description":"edit %d %s"}}`, i, strings.Repeat("x", 1_000))
	return author.Patch(s.T.Context(), csv, client.RawPatch(types.MergePatchType, []byte(patch)))
}
