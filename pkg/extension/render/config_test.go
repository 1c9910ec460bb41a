package render_test

import (
	"errors"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/extension/render"
)

func TestParseConfigNamesTheWrongField(t *testing.T) {
	const supported = "the field is not supported; supported fields: watchNamespace, deploymentConfig.{affinity,annotations,env,envFrom,nodeSelector,resources,tolerations,volumeMounts,volumes}"
	for _, row := range []struct{ name, config, want string }{
		{"an unknown field", `{"watchnamespace": "x"}`, "spec.config.inline.watchnamespace: " + supported},
		{"a field that has no effect", `{"deploymentConfig": {"selector": {}}}`, "spec.config.inline.deploymentConfig.selector: " + supported},
		{"an unknown nested field", `{"deploymentConfig": {"env": [{"name": "a"}, {"nam": "b"}]}}`, "spec.config.inline.deploymentConfig.env[1].nam: " + supported},
		{"a repeated field", `{"watchNamespace": "a", "watchNamespace": "b"}`, "spec.config.inline.watchNamespace: the field is set more than once"},
		{"another type", `{"watchNamespace": {"name": "x"}}`, "spec.config.inline.watchNamespace: must be of type string, but is of type object"},
		{"another nested type", `{"deploymentConfig": {"tolerations": {}}}`, "spec.config.inline.deploymentConfig.tolerations: must be of type array, but is of type object"},
		{"a number", `{"deploymentConfig": {"env": [{"name": 1}]}}`, "spec.config.inline.deploymentConfig.env.name: must be of type string, but is of type number"},
		{"another type of value", `[]`, "spec.config.inline: must be of type object, but is of type array"},
		{"a quantity that takes hours to parse", `{"deploymentConfig": {"env": [], "resources": {"limits": {"cpu": "1e-2147483647"}}}}`,
			`spec.config.inline: the value that begins with "1e-2147483647" is not accepted as a quantity: use at most 99 digits, and at most 3 digits in the exponent`},
		{"an invalid quantity", `{"deploymentConfig": {"env": [], "resources": {"limits": {"cpu": "many"}}}}`,
			"spec.config.inline.deploymentConfig.resources: the value is not valid: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
		{"a list that is too long", `{"deploymentConfig": {"tolerations": [` + strings.Repeat("{},", 1_000) + `{}]}}`,
			"spec.config.inline.deploymentConfig.tolerations: the field has 1001 entries; at most 1000 are allowed"},
		{"an invalid namespace", `{"watchNamespace": "a/b"}`, `spec.config.inline.watchNamespace: "a/b" is not a valid namespace name`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := render.ParseConfig([]byte(row.config))
			require.EqualError(t, err, row.want)
			var wrong *render.ConfigError
			require.True(t, errors.As(err, &wrong))
		})
	}
	for _, empty := range []string{"", "{}", "null", `{"watchNamespace": null, "deploymentConfig": null}`} {
		got, err := render.ParseConfig([]byte(empty))
		require.NoError(t, err)
		require.Zero(t, got)
	}
}

func TestTargets(t *testing.T) {
	for _, row := range []struct{ supported, watch, want string }{
		{"All", "", "all namespaces"},
		{"All", "ops", "the field is not supported, because the bundle supports neither OwnNamespace nor SingleNamespace"},
		{"All Multi", "x", "the field is not supported, because the bundle supports neither OwnNamespace nor SingleNamespace"},
		{"Own", "", `the field is required, because the bundle does not support the install mode AllNamespaces; specify "ops", the install namespace`},
		{"Own", "ops", "ops"},
		{"Own", "x", `"x" is not supported: the bundle supports only the install modes OwnNamespace; specify "ops", the install namespace`},
		{"Single", "", `the field is required, because the bundle does not support the install mode AllNamespaces; specify a namespace other than "ops", the install namespace`},
		{"Single", "x", "x"},
		{"Single", "ops", `"ops" is not supported: the bundle supports only the install modes SingleNamespace; specify a namespace other than "ops", the install namespace`},
		{"Own Single", "", `the field is required, because the bundle does not support the install mode AllNamespaces; specify "ops" or another namespace`},
		{"Own Single", "ops", "ops"},
		{"Own Single", "x", "x"},
		{"Own All", "", "all namespaces"},
		{"Own All", "ops", "ops"},
		{"Own All", "x", `"x" is not supported: the bundle supports only the install modes OwnNamespace, AllNamespaces; specify "ops", the install namespace`},
		{"Single All", "x", "x"},
		{"Single All", "ops", `"ops" is not supported: the bundle supports only the install modes SingleNamespace, AllNamespaces; specify a namespace other than "ops", the install namespace`},
		{"Own Single Multi All", "", "all namespaces"},
		{"Multi", "x", "the bundle must support one of the install modes AllNamespaces, SingleNamespace and OwnNamespace; it supports: MultiNamespace"},
		{"", "", "the bundle must support one of the install modes AllNamespaces, SingleNamespace and OwnNamespace; it supports: none"},
	} {
		t.Run(row.supported+"/"+row.watch, func(t *testing.T) {
			csv := &operatorsv1alpha1.ClusterServiceVersion{}
			for m := range strings.FieldsSeq(row.supported) {
				name := m + "Namespace"
				if m == "All" {
					name = "AllNamespaces"
				}
				csv.Spec.InstallModes = append(csv.Spec.InstallModes, operatorsv1alpha1.InstallMode{Type: operatorsv1alpha1.InstallModeType(name), Supported: true})
			}
			targets, err := render.Config{WatchNamespace: row.watch}.Targets(csv, "ops")
			got := ""
			switch {
			case err != nil:
				got = strings.TrimPrefix(err.Error(), "spec.config.inline.watchNamespace: ")
			case targets[0] == "":
				got = "all namespaces"
			default:
				got = strings.Join(targets, ",")
			}
			require.Equal(t, row.want, got)
		})
	}
}
