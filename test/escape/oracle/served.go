package oracle

import (
	"context"
	"fmt"
	"strings"
)

// isDue records a scene and reports whether it is the last one before the next healthy install.
func (o *Oracle) isDue(scene *Scene) bool {
	o.unserved = append(o.unserved, scene.Namespace)
	if len(scene.Extensions) > 0 {
		o.unservedExtensions = append(o.unservedExtensions, scene.Namespace)
	}
	return scene.Noisy || len(o.unserved) >= o.Batch
}

// startHealthy starts the healthy installs if they are due. It returns a function that waits for them and returns their errors.
func (o *Oracle) startHealthy(ctx context.Context, scene *Scene) func() []string {
	if !o.isDue(scene) {
		return func() []string { return nil }
	}
	return o.startAll(ctx)
}

// Serve returns an error if the healthy installs that are not due yet fail. Call it after the last Check.
func (o *Oracle) Serve(ctx context.Context) error {
	if len(o.unserved) == 0 {
		return nil
	}
	return violated("I5 (others can still install)", o.startAll(ctx)())
}

// startAll starts a healthy install and, if a scene since the last one had ClusterExtensions, also one of a ClusterExtension.
func (o *Oracle) startAll(ctx context.Context) func() []string {
	scenes := strings.Join(o.unserved, ", ")
	beats := []<-chan beaten{o.pulse.start(ctx)}
	if len(o.unservedExtensions) > 0 {
		beats = append(beats, o.pulse.startExtension(ctx))
	}
	o.unserved, o.unservedExtensions = nil, nil
	return func() []string {
		var out []string
		for _, beat := range beats {
			b := <-beat
			o.Slowest = max(o.Slowest, b.took)
			if b.err != nil {
				out = append(out, fmt.Sprintf("after the scenes %s: %s", scenes, b.err))
			}
		}
		return out
	}
}
