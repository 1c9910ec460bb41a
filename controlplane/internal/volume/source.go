package volume

import (
	"context"
	"errors"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/controlplane/internal/config"
	"github.com/remit-olm/remit/controlplane/internal/podenv"
)

const defaultMode = 0o644

// payload computes the content of a volume from the API. It returns nil if the volume has none, as is the case for an
// emptyDir.
func (s *Set) payload(ctx context.Context, f podenv.Facts, v *corev1.Volume) (payload, error) {
	switch {
	case v.Secret != nil:
		data, err := s.reader.Secret(ctx, v.Secret.SecretName, v.Secret.Optional)
		if err != nil {
			return nil, err
		}
		return project(payload{}, data, selection{
			kind: "Secret", name: v.Secret.SecretName, items: v.Secret.Items,
			optional: v.Secret.Optional, mode: v.Secret.DefaultMode,
		}, s.reader.Namespace)
	case v.ConfigMap != nil:
		data, err := s.reader.ConfigMap(ctx, v.ConfigMap.Name, v.ConfigMap.Optional)
		if err != nil {
			return nil, err
		}
		return project(payload{}, data, selection{
			kind: "ConfigMap", name: v.ConfigMap.Name, items: v.ConfigMap.Items,
			optional: v.ConfigMap.Optional, mode: v.ConfigMap.DefaultMode,
		}, s.reader.Namespace)
	case v.DownwardAPI != nil:
		return downward(payload{}, f, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		return s.projected(ctx, f, v.Projected)
	}
	return nil, nil
}

func (s *Set) projected(ctx context.Context, f podenv.Facts, v *corev1.ProjectedVolumeSource) (payload, error) {
	out := payload{}
	for i := range v.Sources {
		if err := s.projectOne(ctx, f, &v.Sources[i], v.DefaultMode, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// projectOne adds the files of one source of a projected volume to out.
func (s *Set) projectOne(ctx context.Context, f podenv.Facts, source *corev1.VolumeProjection, mode *int32, out payload) error {
	switch {
	case source.Secret != nil:
		data, err := s.reader.Secret(ctx, source.Secret.Name, source.Secret.Optional)
		if err != nil {
			return err
		}
		_, err = project(out, data, selection{
			kind: "Secret", name: source.Secret.Name, items: source.Secret.Items, optional: source.Secret.Optional, mode: mode,
		}, s.reader.Namespace)
		return err
	case source.ConfigMap != nil:
		data, err := s.reader.ConfigMap(ctx, source.ConfigMap.Name, source.ConfigMap.Optional)
		if err != nil {
			return err
		}
		_, err = project(out, data, selection{
			kind: "ConfigMap", name: source.ConfigMap.Name, items: source.ConfigMap.Items, optional: source.ConfigMap.Optional, mode: mode,
		}, s.reader.Namespace)
		return err
	case source.DownwardAPI != nil:
		_, err := downward(out, f, source.DownwardAPI.Items, mode)
		return err
	case source.ServiceAccountToken != nil:
		text, err := s.token(ctx, f.Pod, source.ServiceAccountToken)
		if err != nil {
			return err
		}
		out[source.ServiceAccountToken.Path] = file{data: []byte(text), mode: 0o600}
		return nil
	}
	return errors.New("unsupported projected source")
}

// selection lists the selected keys of an object and their paths.
type selection struct {
	kind, name string
	items      []corev1.KeyToPath
	optional   *bool
	mode       *int32
}

func project(out payload, data config.Data, s selection, namespace string) (payload, error) {
	if len(s.items) == 0 {
		for key, value := range data {
			out[key] = file{data: value, mode: modeOf(s.mode)}
		}
		return out, nil
	}
	for _, item := range s.items {
		value, ok := data[item.Key]
		if !ok {
			if config.IsTrue(s.optional) {
				continue
			}
			return nil, &config.Missing{Kind: s.kind, Namespace: namespace, Name: s.name, Key: item.Key}
		}
		out[item.Path] = file{data: value, mode: modeOf(item.Mode, s.mode)}
	}
	return out, nil
}

func downward(out payload, f podenv.Facts, items []corev1.DownwardAPIVolumeFile, mode *int32) (payload, error) {
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = podenv.Field(f, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = podenv.Resource(f, item.ResourceFieldRef, "")
		}
		if err != nil {
			return nil, err
		}
		out[item.Path] = file{data: []byte(value), mode: modeOf(item.Mode, mode)}
	}
	return out, nil
}

// modeOf returns the first mode that is set, or the default mode.
func modeOf(modes ...*int32) fs.FileMode {
	for _, m := range modes {
		if m != nil {
			return fs.FileMode(*m) & fs.ModePerm //nolint:gosec // the mask removes the sign
		}
	}
	return defaultMode
}
