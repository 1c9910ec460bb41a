package component

import (
	"context"

	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// ControllerManagerOptions contains the identity and keys of kube-controller-manager. All fields are required.
type ControllerManagerOptions struct {
	Kubeconfig        string
	ServiceAccountKey string
	RootCA            string
	Signing           Pair
}

// sharedFlags returns the flags that kube-controller-manager and kube-scheduler share: no leader election (losing it
// calls os.Exit), no port, and no low client-side rate limit, which would slow down tests (the default is 20 requests
// per second).
func sharedFlags(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}

// ControllerManager starts kube-controller-manager with all its controllers, as a real cluster does.
func ControllerManager(ctx context.Context, o ControllerManagerOptions) (*Running, error) {
	s, err := kcmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	known, disabled, aliases := kcm.KnownControllers(), kcm.ControllersDisabledByDefault(), kcm.ControllerAliases()
	args := append(sharedFlags(o.Kubeconfig),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+o.ServiceAccountKey,
		"--root-ca-file="+o.RootCA,
		"--cluster-signing-cert-file="+o.Signing.Cert,
		"--cluster-signing-key-file="+o.Signing.Key,
	)
	if err := parse("kube-controller-manager", s.Flags(known, disabled, aliases), args); err != nil {
		return nil, err
	}
	return start(ctx, "kube-controller-manager", func(ctx context.Context) error {
		config, err := s.Config(ctx, known, disabled, aliases)
		if err != nil {
			return err
		}
		return kcm.Run(ctx, config.Complete())
	}), nil
}

// Scheduler starts kube-scheduler.
func Scheduler(ctx context.Context, kubeconfig string) (*Running, error) {
	o := scheduleroptions.NewOptions()
	if err := parse("kube-scheduler", *o.Flags, sharedFlags(kubeconfig)); err != nil {
		return nil, err
	}
	return start(ctx, "kube-scheduler", func(ctx context.Context) error {
		config, sched, err := scheduler.Setup(ctx, o)
		if err != nil {
			return err
		}
		return scheduler.Run(ctx, config, sched)
	}), nil
}
