#!/bin/sh
# Builds bin/controlplane unless it already exists for exactly these sources and this Go version.
#
# A cold build compiles Kubernetes (about eight CPU-minutes), so the binary is reused until its key changes. The key is a hash
# of the module's source files and the Go version. CI may restore bin/controlplane and bin/controlplane.key from a cache by the
# same key, which `build.sh key` prints.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
out=${CONTROLPLANE_BIN:-$here/../bin/controlplane}
go=${GO:-go}
# The environment of the caller (a go.work, an outer module's flags) must not leak into the nested module.
export GOWORK=off CGO_ENABLED=0

key() {
	cd "$here"
	{
		"$go" env GOVERSION GOOS GOARCH
		# differential is a separate program.
		find . -path ./differential -prune -o -type f \( -name '*.go' ! -name '*_test.go' -o -name go.mod -o -name go.sum -o -name build.sh \) -print |
			LC_ALL=C sort | xargs sha256sum
	} | sha256sum | cut -d' ' -f1
}

# The version is set at link time; otherwise the server would report v0.0.0-master+$Format:%H$, which clients cannot parse.
ldflags() {
	version=$(cd "$here" && "$go" list -m -f '{{.Version}}' k8s.io/kubernetes)
	minor=${version#v1.}
	pkg=k8s.io/component-base/version
	echo "-s -w -X $pkg.gitVersion=$version -X $pkg.gitMajor=1 -X $pkg.gitMinor=${minor%%.*} -X $pkg.gitTreeState=clean"
}

build() {
	want=$(key)
	if [ -x "$out" ] && [ "$(cat "$out.key" 2>/dev/null)" = "$want" ]; then
		echo "controlplane: $out is up to date"
		return
	fi
	mkdir -p "$(dirname "$out")"
	# The binary is replaced by renaming, which does not affect control planes that run from the old file.
	(cd "$here" && "$go" build -ldflags "$(ldflags)" -o "$out.new" .)
	mv "$out.new" "$out"
	echo "$want" >"$out.key"
	echo "controlplane: built $out"
}

case ${1:-build} in
key) key ;;
ldflags) ldflags ;;
build) build ;;
*)
	echo "usage: build.sh [build|key|ldflags]" >&2
	exit 2
	;;
esac
