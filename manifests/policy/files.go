package policy

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	extensionpolicy "github.com/remit-olm/remit/manifests/extensions/policy"
	packagepolicy "github.com/remit-olm/remit/manifests/packages/policy"
	removerpolicy "github.com/remit-olm/remit/manifests/remover/policy"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

//go:embed *.yaml
var files embed.FS

const (
	kustomization = "kustomization.yaml"
	kindPolicy    = "ValidatingAdmissionPolicy"
	kindBinding   = "ValidatingAdmissionPolicyBinding"
	// The author check's variables variableDefault and variableHome depend on the installation.
	variableDefault = "defaultAccount"
	variableHome    = "installation"
)

// Installation describes the parts of an installation that the policies depend on.
type Installation struct {
	// Namespace is where Remit is installed.
	Namespace string
	// Default is the default account, as set by the programs' flags.
	Default scoped.Default
	// Extensions selects the policies for ClusterExtensions, which limit the program extension, instead of those that limit
	// the other programs.
	Extensions bool
	// Packages selects the policy that limits the program package-server.
	Packages bool
	// Removals selects the policy that limits the optional identity remit-remover.
	Removals bool
}

// Set contains the policies and bindings of one installation.
type Set struct {
	Policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	Bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Of returns the policies that an installation needs.
func Of(i Installation) (Set, error) {
	var from fs.FS = files
	switch {
	case i.Extensions:
		from = extensionpolicy.Files
	case i.Packages:
		from = packagepolicy.Files
	case i.Removals:
		from = removerpolicy.Files
	}
	var out Set
	err := out.addFiles(i, from)
	return out, err
}

func (s *Set) addFiles(i Installation, from fs.FS) error {
	paths, err := fs.Glob(from, "*.yaml")
	if err != nil {
		return err
	}
	for _, path := range paths {
		if path == kustomization {
			continue
		}
		text, err := fs.ReadFile(from, path)
		if err == nil {
			err = s.add(i, text)
		}
		if err != nil {
			return fmt.Errorf("policy file %s: %w", path, err)
		}
	}
	return nil
}

func (s *Set) add(i Installation, text []byte) error {
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		if err := yaml.Unmarshal(document, policy); err != nil {
			return err
		}
		switch policy.Kind {
		case kindPolicy:
			i.adapt(policy)
			s.Policies = append(s.Policies, policy)
		case kindBinding:
			if err := yaml.UnmarshalStrict(document, binding); err != nil {
				return err
			}
			s.Bindings = append(s.Bindings, binding)
		default:
			return fmt.Errorf("unexpected object of kind %q", policy.Kind)
		}
	}
}

// adapt replaces the identities and accounts in the manifests with those of the installation.
func (i Installation) adapt(policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
	for n := range policy.Spec.MatchConditions {
		c := &policy.Spec.MatchConditions[n]
		c.Expression = strings.ReplaceAll(c.Expression, scoped.Username(names.DefaultNamespace, ""), scoped.Username(i.Namespace, ""))
	}
	for n := range policy.Spec.Variables {
		switch v := &policy.Spec.Variables[n]; v.Name {
		case variableHome:
			v.Expression = "'" + i.Namespace + "'"
		case variableDefault:
			v.Expression = i.defaultAccount()
		}
	}
}

// defaultAccount returns the author check's expression for the default account.
func (i Installation) defaultAccount() string {
	account := i.Default.Account
	switch {
	case account.Name == "":
		return "''"
	case account.Namespace == i.Namespace:
		return limited(i.Default.Namespaces, "variables."+variableHome+" + '/"+account.Name+"'")
	}
	return limited(i.Default.Namespaces, "'"+account.String()+"'")
}

func limited(namespaces []string, account string) string {
	if len(namespaces) == 0 {
		return account
	}
	return "request.namespace in ['" + strings.Join(namespaces, "', '") + "'] ? " + account + " : ''"
}
