package process

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"

	"k8s.io/klog/v2"
)

// script records the guarded process groups and kills them when its input ends. It ignores the signals that a
// terminal or supervisor sends to all processes, because it must end last.
const script = `trap '' INT TERM HUP
guarded=
while read -r op group; do
	case $op in
	guard) guarded="$guarded $group" ;;
	release)
		left=
		for g in $guarded; do [ "$g" = "$group" ] || left="$left $g"; done
		guarded=$left ;;
	esac
done
for g in $guarded; do kill -KILL "-$g" 2>/dev/null; done
`

// warden is the shell process described in the package comment.
type warden struct {
	mu    sync.Mutex
	input io.WriteCloser
}

func newWarden() (*warden, error) {
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait() }()
	return &warden{input: input}, nil
}

func (w *warden) guard(pid int)   { w.tell("guard", pid) }
func (w *warden) release(pid int) { w.tell("release", pid) }

func (w *warden) tell(op string, pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Fprintf(w.input, "%s %d\n", op, pid); err != nil {
		// Continue, because the other two mechanisms still work.
		klog.ErrorS(err, "Warden has ended", "op", op, "pid", pid)
	}
}
