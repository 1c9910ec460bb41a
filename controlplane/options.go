package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/remit-olm/remit/controlplane/internal/image"
)

type options struct {
	dir       string
	images    image.Map
	users     string
	linger    time.Duration
	tether    bool
	ephemeral bool
	auditLog  string
	// authorizer is the kubeconfig of an authorization webhook; "" means that only Node and RBAC authorize requests.
	authorizer string
}

func parseOptions(args []string) (options, error) {
	var o options
	var images []string
	flags := pflag.NewFlagSet("controlplane", pflag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "", "state directory (default a new temporary one, with --ephemeral)")
	flags.StringArrayVar(&images, "image", nil, "IMAGE=EXECUTABLE: run containers of this image as processes of this executable (repeatable)")
	flags.StringVar(&o.images.File, "images-file", "", "file with more --image entries, one per line or as a JSON object, read at each container start")
	flags.StringVar(&o.users, "users", "", "exit when no process holds a shared lock (flock) on this file")
	flags.DurationVar(&o.linger, "linger", 3*time.Second, "how long --users waits for new users")
	flags.BoolVar(&o.tether, "tether", false, "exit when stdin is closed")
	flags.BoolVar(&o.ephemeral, "ephemeral", false, "remove everything but the logs from the state directory on exit")
	flags.StringVar(&o.auditLog, "audit-log", "", "file for the API server's audit log (default DIR/audit.log)")
	flags.StringVar(&o.authorizer, "authorizer", "", "kubeconfig of a webhook that authorizes requests that RBAC does not allow")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.images.Fixed = map[string]string{}
	for _, entry := range images {
		name, exe, err := image.Parse(entry)
		if err != nil {
			return o, err
		}
		o.images.Fixed[name] = exe
	}
	return o, o.complete()
}

// complete sets the options that depend on the directory. Paths become absolute, because Pods' processes run in other
// directories.
func (o *options) complete() (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "remit-controlplane-"); err != nil {
			return err
		}
		o.ephemeral = true
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	if o.auditLog == "" {
		o.auditLog = filepath.Join(o.dir, "audit.log")
	}
	for _, file := range []*string{&o.auditLog, &o.images.File, &o.users, &o.authorizer} {
		if *file == "" {
			continue
		}
		if *file, err = filepath.Abs(*file); err != nil {
			return err
		}
	}
	return nil
}
