package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/message"
)

// Format is the value of a command's --output flag.
type Format string

// Output formats. Text is for humans; the others are for programs.
const (
	Text Format = "text"
	YAML Format = "yaml"
	JSON Format = "json"
)

// Formats returns all formats, the default first.
func Formats() []Format { return []Format{Text, YAML, JSON} }

// AddFlag adds -o/--output to a command. more are formats of this command, in addition to Formats.
func (f *Format) AddFlag(cmd *cobra.Command, more ...Format) {
	if *f == "" {
		*f = Text
	}
	flag := &formatFlag{value: f, allowed: append(Formats(), more...)}
	cmd.Flags().VarP(flag, "output", "o", "output format: "+flag.list(", "))
	complete := cobra.FixedCompletions(strings.Fields(flag.list(" ")), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("output", complete) // fails only for an undefined flag
}

// formatFlag is the flag --output of one command.
type formatFlag struct {
	value   *Format
	allowed []Format
}

func (f *formatFlag) list(separator string) string {
	list := make([]string, 0, len(f.allowed))
	for _, format := range f.allowed {
		list = append(list, string(format))
	}
	return strings.Join(list, separator)
}

// Set implements pflag.Value.
func (f *formatFlag) Set(s string) error {
	if !slices.Contains(f.allowed, Format(s)) {
		return fmt.Errorf("must be one of %s", f.list(", "))
	}
	*f.value = Format(s)
	return nil
}

// String implements pflag.Value.
func (f *formatFlag) String() string {
	if f.value == nil {
		return ""
	}
	return string(*f.value)
}

// Type implements pflag.Value.
func (f *formatFlag) Type() string { return "format" }

// Encode writes a value as YAML or JSON. Both use the json tags as field names. A Writer changes nothing in the output.
func (f Format) Encode(out io.Writer, value any) error {
	encode := message.JSON
	if f == YAML {
		encode = message.YAML
	}
	text, err := encode(value)
	if err != nil {
		return err
	}
	if f == YAML && strings.HasPrefix(string(text), "{") {
		_, err = message.Fprintf(out, "---\n%s", text) // otherwise, decoders expect JSON, which has fewer escape sequences
		return err
	}
	_, err = message.Fprintf(out, "%s", text)
	return err
}

// EncodeObjects writes API objects as kubectl does: as YAML documents, or as a List in JSON.
func (f Format) EncodeObjects(out io.Writer, objs []client.Object) error {
	if f == JSON {
		return f.Encode(out, map[string]any{"apiVersion": "v1", "kind": "List", "items": objs})
	}
	documents, err := message.Documents(objs...)
	if err != nil {
		return err
	}
	_, err = message.Fprintf(out, "%s", documents)
	return err
}
