package docs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/utils/ptr"
)

// kubectl is the few forms of the program of that name that the pages use, with its words:
//
//	apply -f -                                        or a file; server-side, unlike kubectl's default
//	get    KIND [NAME] -o jsonpath=TEMPLATE | -o name
//	wait   KIND/NAME --for=jsonpath=PATH=VALUE | --for=condition=TYPE | --for=delete
//	patch  KIND NAME --type=merge -p JSON
//	delete KIND NAME
//	remit  ...                                        the plugin, which is a program of its own
//
// all but the last with -n and --as.
type kubectl struct {
	client dynamic.Interface
	mapper meta.RESTMapper
	in     io.Reader
	out    io.Writer

	namespace, as, output, file, patch, patchType, until string
	timeout                                              time.Duration
}

// kubectlMain runs it as a program, and returns its exit status.
func kubectlMain(args []string) int {
	if len(args) > 0 && args[0] == "remit" {
		return plugin(args[1:])
	}
	k := &kubectl{in: os.Stdin, out: os.Stdout}
	if err := k.run(context.Background(), args); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

// plugin runs kubectl-remit, as kubectl would.
func plugin(args []string) int {
	cmd := exec.Command("kubectl-remit", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

func (k *kubectl) run(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	flags.StringVarP(&k.namespace, "namespace", "n", metav1.NamespaceDefault, "")
	flags.StringVar(&k.as, "as", "", "")
	flags.StringVarP(&k.output, "output", "o", "", "")
	flags.StringVarP(&k.file, "filename", "f", "", "")
	flags.StringVarP(&k.patch, "patch", "p", "", "")
	flags.StringVar(&k.patchType, "type", "", "")
	flags.StringVar(&k.until, "for", "", "")
	flags.DurationVar(&k.timeout, "timeout", 30*time.Second, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("no command")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.Impersonate.UserName = k.as
	if err := k.connect(config); err != nil {
		return err
	}
	verb, rest := flags.Arg(0), flags.Args()[1:]
	if verb == "apply" {
		return k.apply(ctx)
	}
	t, err := k.target(rest)
	if err != nil {
		return err
	}
	switch verb {
	case "get":
		return k.get(ctx, t)
	case "wait":
		return k.wait(ctx, t)
	case "patch":
		return k.merge(ctx, t)
	case "delete":
		return k.delete(ctx, t)
	}
	return fmt.Errorf("the pages' kubectl does not know %q", verb)
}

func (k *kubectl) connect(config *rest.Config) error {
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	cached := memory.NewMemCacheClient(disco)
	k.mapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	k.client, err = dynamic.NewForConfig(config)
	return err
}

// target is what a command is about; a name may be left out.
type target struct {
	mapping *meta.RESTMapping
	name    string
	dynamic.ResourceInterface
}

// String is how kubectl names an object: <kind>.<group>/<name>.
func (t target) String() string {
	return strings.ToLower(t.mapping.GroupVersionKind.GroupKind().String()) + "/" + t.name
}

func (k *kubectl) target(args []string) (target, error) {
	kind, name, _ := strings.Cut(strings.Join(args, "/"), "/")
	if kind == "" || strings.Contains(name, "/") {
		return target{}, fmt.Errorf("want KIND/NAME or KIND NAME, got %q", args)
	}
	gvk, err := k.mapper.KindFor(schema.ParseGroupResource(kind).WithVersion(""))
	if err != nil {
		return target{}, err
	}
	return k.of(gvk, k.namespace, name)
}

func (k *kubectl) of(gvk schema.GroupVersionKind, namespace, name string) (target, error) {
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return target{}, err
	}
	t := target{mapping: mapping, name: name, ResourceInterface: k.client.Resource(mapping.Resource)}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		t.ResourceInterface = k.client.Resource(mapping.Resource).Namespace(namespace)
	}
	return t, nil
}

func (k *kubectl) apply(ctx context.Context) error {
	in := k.in
	if k.file != "-" {
		file, err := os.Open(k.file)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(in, 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(obj.Object) == 0 {
			continue
		}
		if err := k.applyOne(ctx, obj); err != nil {
			return err
		}
	}
}

func (k *kubectl) applyOne(ctx context.Context, obj *unstructured.Unstructured) error {
	namespace := obj.GetNamespace()
	if namespace == "" {
		namespace = k.namespace
	}
	t, err := k.of(obj.GroupVersionKind(), namespace, obj.GetName())
	if err != nil {
		return err
	}
	_, err = t.Get(ctx, t.name, metav1.GetOptions{})
	done := "configured"
	if apierrors.IsNotFound(err) {
		done = "created"
	}
	_, err = t.Apply(ctx, t.name, obj, metav1.ApplyOptions{FieldManager: "kubectl"})
	if err == nil {
		fmt.Fprintln(k.out, t, done)
	}
	return err
}

func (k *kubectl) get(ctx context.Context, t target) error {
	var found []unstructured.Unstructured
	if t.name == "" {
		list, err := t.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		found = list.Items
	} else {
		obj, err := t.Get(ctx, t.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found = append(found, *obj)
	}
	template, isPath := strings.CutPrefix(k.output, "jsonpath=")
	switch {
	case isPath && t.name != "":
		text, err := evaluate(&found[0], template)
		fmt.Fprint(k.out, text)
		return err
	case k.output != "name":
		return fmt.Errorf("the pages' kubectl does not know -o %q here", k.output)
	}
	for i := range found {
		fmt.Fprintln(k.out, target{mapping: t.mapping, name: found[i].GetName()})
	}
	return nil
}

func evaluate(obj *unstructured.Unstructured, template string) (string, error) {
	path := jsonpath.New("page").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return "", err
	}
	var out strings.Builder
	err := path.Execute(&out, obj.Object)
	return out.String(), err
}

func (k *kubectl) wait(ctx context.Context, t target) error {
	last := "not looked at yet"
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, k.timeout, true, func(ctx context.Context) (bool, error) {
		obj, err := t.Get(ctx, t.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && k.until == "delete" {
			return true, nil
		}
		if err != nil || k.until == "delete" {
			return false, err
		}
		var ok bool
		ok, last, err = met(obj, k.until)
		return ok, err
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("timed out waiting for the condition on %s: it is %s", t, last)
	}
	if err == nil {
		fmt.Fprintln(k.out, t, "condition met")
	}
	return err
}

// met says whether an object is as --for wants it, and how it is.
func met(obj *unstructured.Unstructured, until string) (ok bool, got string, err error) {
	path, want := "", ""
	if condition, is := strings.CutPrefix(until, "condition="); is {
		path, want = fmt.Sprintf(`{.status.conditions[?(@.type=="%s")].status}`, condition), "True"
	} else if expression, is := strings.CutPrefix(until, "jsonpath="); is {
		end := strings.LastIndex(expression, "}=")
		if end < 0 {
			return false, "", fmt.Errorf("--for=%s: want jsonpath={PATH}=VALUE", until)
		}
		path, want = expression[:end+1], expression[end+2:]
	} else {
		return false, "", fmt.Errorf("the pages' kubectl does not know --for=%s", until)
	}
	got, err = evaluate(obj, path)
	return got == want, got, err
}

func (k *kubectl) merge(ctx context.Context, t target) error {
	if k.patchType != "merge" || k.patch == "" || t.name == "" {
		return errors.New("the pages' kubectl knows only patch KIND NAME --type=merge -p JSON")
	}
	_, err := t.Patch(ctx, t.name, types.MergePatchType, []byte(k.patch), metav1.PatchOptions{FieldManager: "kubectl"})
	if err == nil {
		fmt.Fprintln(k.out, t, "patched")
	}
	return err
}

func (k *kubectl) delete(ctx context.Context, t target) error {
	err := t.Delete(ctx, t.name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	if err == nil {
		fmt.Fprintf(k.out, "%s %q deleted\n", strings.ToLower(t.mapping.GroupVersionKind.GroupKind().String()), t.name)
	}
	return err
}
