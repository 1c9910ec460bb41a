package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// Path is the path of the configuration in a ClusterExtension.
const Path = "spec.config.inline"

// Config is the configuration of a ClusterExtension.
type Config struct {
	// WatchNamespace is the only namespace that the operator watches; "" if the configuration does not name one.
	WatchNamespace string
	// Deployment customizes the operator's Deployments, as the config of a Subscription does; nil if it is not set.
	Deployment *operatorsv1alpha1.SubscriptionConfig
}

// ConfigError reports a field of the configuration that is invalid or missing.
type ConfigError struct {
	// Field is the path of the field in the ClusterExtension.
	Field string
	// Why describes the problem and the possible values.
	Why string
}

func (e *ConfigError) Error() string { return e.Field + ": " + e.Why }

// inline is the schema of the configuration of a registry+v1 bundle.
type inline struct {
	WatchNamespace   *string           `json:"watchNamespace,omitempty"`
	DeploymentConfig *deploymentConfig `json:"deploymentConfig,omitempty"`
}

// deploymentConfig has the fields of a Subscription's config except the selector, which has no effect there.
type deploymentConfig struct {
	NodeSelector map[string]string            `json:"nodeSelector,omitempty"`
	Tolerations  []corev1.Toleration          `json:"tolerations,omitempty"`
	Resources    *corev1.ResourceRequirements `json:"resources,omitempty"`
	EnvFrom      []corev1.EnvFromSource       `json:"envFrom,omitempty"`
	Env          []corev1.EnvVar              `json:"env,omitempty"`
	Volumes      []corev1.Volume              `json:"volumes,omitempty"`
	VolumeMounts []corev1.VolumeMount         `json:"volumeMounts,omitempty"`
	Affinity     *corev1.Affinity             `json:"affinity,omitempty"`
	Annotations  map[string]string            `json:"annotations,omitempty"`
}

func (d *deploymentConfig) subscription() *operatorsv1alpha1.SubscriptionConfig {
	if d == nil {
		return nil
	}
	return &operatorsv1alpha1.SubscriptionConfig{
		NodeSelector: d.NodeSelector, Tolerations: d.Tolerations, Resources: d.Resources, EnvFrom: d.EnvFrom, Env: d.Env,
		Volumes: d.Volumes, VolumeMounts: d.VolumeMounts, Affinity: d.Affinity, Annotations: d.Annotations,
	}
}

// ParseConfig parses the configuration of a ClusterExtension, which is a JSON object or empty. The error is a *ConfigError.
func ParseConfig(raw []byte) (Config, error) {
	if len(raw) == 0 {
		return Config{}, nil
	}
	if err := budget.CheckQuantities(raw); err != nil {
		return Config{}, &ConfigError{Path, err.Error()}
	}
	var in inline
	strict, err := kjson.UnmarshalStrict(raw, &in)
	if err != nil {
		return Config{}, mistyped(raw, err)
	}
	if len(strict) > 0 {
		return Config{}, unknown(strict[0])
	}
	out := Config{Deployment: in.DeploymentConfig.subscription()}
	if err := deployment.CheckConfig(out.Deployment); err != nil {
		return Config{}, unacceptable(err)
	}
	if in.WatchNamespace != nil {
		out.WatchNamespace = *in.WatchNamespace
	}
	if out.WatchNamespace != "" && len(validation.IsDNS1123Label(out.WatchNamespace)) > 0 {
		return Config{}, &ConfigError{Path + ".watchNamespace", fmt.Sprintf("%q is not a valid namespace name", out.WatchNamespace)}
	}
	return out, nil
}

// unacceptable describes a field of the deploymentConfig that deployment.CheckConfig does not accept.
func unacceptable(err error) error {
	if long := (*budget.ListError)(nil); errors.As(err, &long) {
		return &ConfigError{Path + ".deploymentConfig." + long.Field, fmt.Sprintf("the field has %d entries; at most %d are allowed", long.Len, long.Max)}
	}
	return &ConfigError{Path + ".deploymentConfig", err.Error()}
}

// mistyped describes a field whose value is not valid.
func mistyped(raw []byte, err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return &ConfigError{Path + invalidField(raw), "the value is not valid: " + err.Error()}
	}
	field := Path
	if wrong.Field != "" {
		field += "." + wrong.Field
	}
	return &ConfigError{field, fmt.Sprintf("must be of type %s, but is of type %s", typeName(wrong.Type.Kind().String()), typeName(wrong.Value))}
}

// invalidField returns the path of the first field of the deploymentConfig whose value cannot be decoded, or "". It finds
// invalid values of the correct type, such as malformed quantities.
func invalidField(raw []byte) string {
	var fields struct {
		DeploymentConfig map[string]json.RawMessage `json:"deploymentConfig"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, &fields) != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(fields.DeploymentConfig)) {
		one, err := json.Marshal(map[string]json.RawMessage{name: fields.DeploymentConfig[name]})
		if err == nil && kjson.UnmarshalCaseSensitivePreserveInts(one, &deploymentConfig{}) != nil {
			return ".deploymentConfig." + name
		}
	}
	return ""
}

// typeName returns the name of a type in JSON. name is the name of a Go kind or of a JSON type.
func typeName(name string) string {
	switch name, _, _ := strings.Cut(name, " "); name {
	case "struct", "map":
		return "object"
	case "slice":
		return "array"
	case "bool":
		return "boolean"
	case "int32", "int64":
		return "number"
	default:
		return name
	}
}

// unknown describes a field that does not exist or is set more than once.
func unknown(err error) error {
	field := Path
	if at, ok := err.(kjson.FieldError); ok { //nolint:errorlint // an interface that the library documents for these errors
		field += "." + message.Word(at.FieldPath())
	}
	if strings.HasPrefix(err.Error(), "duplicate") {
		return &ConfigError{field, "the field is set more than once"}
	}
	return &ConfigError{field, "the field is not supported; supported fields: watchNamespace, deploymentConfig.{" +
		"affinity,annotations,env,envFrom,nodeSelector,resources,tolerations,volumeMounts,volumes}"}
}

// UnsupportedModesError reports that a ClusterExtension cannot install a bundle with these install modes.
type UnsupportedModesError struct{ Modes []string }

func (e *UnsupportedModesError) Error() string {
	supported := "none"
	if len(e.Modes) > 0 {
		supported = strings.Join(e.Modes, ", ")
	}
	return "the bundle must support one of the install modes AllNamespaces, SingleNamespace and OwnNamespace; it supports: " + supported
}

// Targets returns the namespaces that an operator in the namespace watches, or [""] for all. The error is a *ConfigError
// or an *UnsupportedModesError.
func (c Config) Targets(csv *operatorsv1alpha1.ClusterServiceVersion, namespace string) ([]string, error) {
	m := modesOf(csv)
	if !m.all && !m.own && !m.single {
		return nil, &UnsupportedModesError{m.names}
	}
	if c.WatchNamespace == "" && m.all {
		return []string{""}, nil
	}
	if why := m.refuse(c.WatchNamespace, namespace); why != "" {
		return nil, &ConfigError{Path + ".watchNamespace", why}
	}
	return []string{c.WatchNamespace}, nil
}

// installModes are the install modes that a bundle supports.
type installModes struct {
	all, own, single bool
	names            []string
}

func modesOf(csv *operatorsv1alpha1.ClusterServiceVersion) installModes {
	out := installModes{}
	for _, m := range csv.Spec.InstallModes {
		if !m.Supported {
			continue
		}
		out.names = append(out.names, string(m.Type))
		switch m.Type {
		case operatorsv1alpha1.InstallModeTypeAllNamespaces:
			out.all = true
		case operatorsv1alpha1.InstallModeTypeOwnNamespace:
			out.own = true
		case operatorsv1alpha1.InstallModeTypeSingleNamespace:
			out.single = true
		}
	}
	return out
}

// refuse returns the reason why an operator that runs in namespace cannot be restricted to the namespace watched, or "" if it
// can.
func (m installModes) refuse(watched, namespace string) string {
	isOwn := watched == namespace
	switch {
	case watched == "":
		return "the field is required, because the bundle does not support the install mode AllNamespaces; specify " + m.possible(namespace)
	case !m.own && !m.single:
		return "the field is not supported, because the bundle supports neither OwnNamespace nor SingleNamespace"
	case isOwn && !m.own, !isOwn && !m.single:
		return fmt.Sprintf("%q is not supported: the bundle supports only the install modes %s; specify %s",
			watched, strings.Join(m.names, ", "), m.possible(namespace))
	}
	return ""
}

// possible describes the namespaces that can be watched.
func (m installModes) possible(namespace string) string {
	switch {
	case !m.single:
		return fmt.Sprintf("%q, the install namespace", namespace)
	case !m.own:
		return fmt.Sprintf("a namespace other than %q, the install namespace", namespace)
	}
	return fmt.Sprintf("%q or another namespace", namespace)
}
