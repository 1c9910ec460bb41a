package existing

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/remit-olm/remit/pkg/lib/turns"
)

// A bundle's author writes the new schema, which the API server has not seen and therefore not refused, and a schema and an object
// together can take any amount of memory and time. They are validated in a process of its own, with limits that the kernel enforces
// (docs/adr/0084).
const (
	// processName is the name under which a program that contains this package validates objects instead of running.
	processName = "remit-validate-objects"
	// MaxMemory bounds the memory of the process in bytes, and softMemory is what its garbage collector tries to keep to. The largest
	// CustomResourceDefinitions of the corpus take 124 MiB, including the program.
	MaxMemory, softMemory = 256 << 20, 192 << 20
	// schemaSeconds and objectSeconds bound the CPU time for preparing the schemas, and for validating one object.
	schemaSeconds, objectSeconds = 10, 3
	// maxReason is the maximum length of the reason why a schema cannot be used, in bytes.
	maxReason = 500
)

// errBusy means that several other Reads are in progress. A later attempt may succeed.
var errBusy = errors.New("objects of several other CustomResourceDefinitions are being validated")

// running is the turn of the only process. Namespaces take turns, so that one of them does not wait for all plans of another.
var running = turns.Turns{Slots: 1, Share: 1}

// schemas is the first message to the process. Each one after it is an object.
type schemas struct {
	Live, Want *apiextensionsv1.JSONSchemaProps
}

// usable is the answer to schemas.
type usable struct {
	// Why is the reason why the new schema cannot be used; "" if it can.
	Why string
}

// verdict is the answer to an object.
type verdict struct {
	// First describes the first violations, and More is the number of others.
	First []string
	More  int
}

//nolint:gochecknoinits // any program that contains this package, including tests, is started again under another name
func init() {
	if os.Args[0] == processName {
		os.Exit(serve(os.Stdin, os.Stdout))
	}
}

// serve validates the objects in a stream of messages, and returns an exit code.
func serve(in io.Reader, out io.Writer) int {
	debug.SetMemoryLimit(softMemory)
	decode, encode := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	var all schemas
	if limit(schemaSeconds) != nil || decode.Decode(&all) != nil {
		return 1
	}
	c, err := newCheck(all.Live, all.Want)
	if err != nil {
		_ = encode.Encode(usable{short(err.Error(), maxReason)})
		return 0
	}
	if encode.Encode(usable{}) != nil {
		return 1
	}
	for {
		var text json.RawMessage
		if limit(objectSeconds) != nil || decode.Decode(&text) != nil {
			return 1
		}
		object := map[string]any{}
		if utiljson.Unmarshal(text, &object) != nil || encode.Encode(verdictOf(c.violations(context.Background(), object))) != nil {
			return 1
		}
	}
}

func verdictOf(all []violation) (out verdict) {
	for _, v := range all[:min(len(all), MaxViolations)] {
		out.First = append(out.First, v.String())
	}
	out.More = len(all) - len(out.First)
	return out
}

// process validates objects in another process.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	encode *json.Encoder
	decode *json.Decoder
	free   func()
}

// start waits until no other process runs, and starts one. The caller must call stop. why is the reason why the schemas cannot be
// used; the process is then nil.
func start(ctx context.Context, namespace string, with schemas) (p *process, why string, err error) {
	free, err := place(ctx, namespace)
	if err != nil {
		return nil, "", err
	}
	p = &process{cmd: exec.CommandContext(ctx, "/proc/self/exe"), free: free}
	p.cmd.Args, p.cmd.Env = []string{processName}, []string{}
	p.in, err = p.cmd.StdinPipe()
	if err != nil {
		free()
		return nil, "", err
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		free()
		return nil, "", fmt.Errorf("start the validation of existing objects: %w", err)
	}
	p.encode, p.decode = json.NewEncoder(p.in), json.NewDecoder(bufio.NewReader(out))
	var is usable
	if p.ask(with, &is) != nil {
		is.Why = "it takes too much memory or time"
	}
	if is.Why != "" {
		p.stop()
		return nil, is.Why, nil
	}
	return p, "", nil
}

// place waits for the place of the only process, on behalf of a namespace. The error is errBusy if others run for so long, and that of
// the context if there was no time left from the beginning.
func place(ctx context.Context, namespace string) (free func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	turn, _, err := running.Join(ctx, namespace)
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrSlow) {
			err = errBusy
		}
		return nil, err
	}
	return turn.Leave, nil
}

// ask sends a message, and reads the answer. An error means that the process has ended: its limits were exceeded, or the context is
// done.
func (p *process) ask(question, answer any) error {
	if err := p.encode.Encode(question); err != nil {
		return err
	}
	return p.decode.Decode(answer)
}

// stop ends the process.
func (p *process) stop() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.free()
}
