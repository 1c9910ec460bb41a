package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthyInstallsAreDueAfterEachBatchAndEachNoisyScene(t *testing.T) {
	scene, noisy := &Scene{Namespace: "scene"}, &Scene{Namespace: "noisy", Noisy: true}
	for name, test := range map[string]struct {
		batch  int
		scenes []*Scene
		want   []bool
	}{
		"without batches": {scenes: []*Scene{scene, noisy, scene}, want: []bool{true, true, true}},
		"a full batch":    {batch: 3, scenes: []*Scene{scene, scene, scene, scene}, want: []bool{false, false, true, false}},
		"a noisy scene":   {batch: 3, scenes: []*Scene{scene, noisy, scene, scene, scene}, want: []bool{false, true, false, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Oracle{Batch: test.batch}
			var got []bool
			for _, s := range test.scenes {
				due := o.isDue(s)
				if got = append(got, due); due {
					o.unserved = nil
				}
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestAScenesExtensionsAreRememberedUntilTheNextHealthyInstall(t *testing.T) {
	o := &Oracle{Batch: 2}
	require.False(t, o.isDue(&Scene{Namespace: "first", Extensions: []string{"e"}}))
	require.True(t, o.isDue(&Scene{Namespace: "second"}))
	require.Equal(t, []string{"first", "second"}, o.unserved)
	require.Equal(t, []string{"first"}, o.unservedExtensions)
}
