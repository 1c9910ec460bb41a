package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
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

// AddFlag adds -o/--output to a command.
func (f *Format) AddFlag(cmd *cobra.Command) {
	if *f == "" {
		*f = Text
	}
	cmd.Flags().VarP(f, "output", "o", "output format: "+formatList())
	complete := cobra.FixedCompletions([]string{string(Text), string(YAML), string(JSON)}, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("output", complete) // fails only for an undefined flag
}

func formatList() string {
	list := make([]string, 0, len(Formats()))
	for _, f := range Formats() {
		list = append(list, string(f))
	}
	return strings.Join(list, ", ")
}

// Set implements pflag.Value.
func (f *Format) Set(s string) error {
	if !slices.Contains(Formats(), Format(s)) {
		return fmt.Errorf("must be one of %s", formatList())
	}
	*f = Format(s)
	return nil
}

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Encode writes a value as YAML or JSON. Both use the json tags as field names.
func (f Format) Encode(out io.Writer, value any) error {
	var text []byte
	var err error
	if f == YAML {
		text, err = yaml.Marshal(value)
	} else {
		text, err = json.MarshalIndent(value, "", "  ")
		text = append(text, '\n')
	}
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = out.Write(text)
	return err
}

// EncodeObjects writes API objects as kubectl does: as YAML documents, or as a List in JSON.
func (f Format) EncodeObjects(out io.Writer, objs []client.Object) error {
	if f == JSON {
		return f.Encode(out, map[string]any{"apiVersion": "v1", "kind": "List", "items": objs})
	}
	for _, obj := range objs {
		if _, err := io.WriteString(out, "---\n"); err != nil {
			return err
		}
		if err := f.Encode(out, obj); err != nil {
			return err
		}
	}
	return nil
}
