// Command images writes the container images of Lateen as OCI layouts, without a container engine:
// the control plane, the proxy and the tools for people, each for one or more architectures.
//
//	go run . -source ../.. -tools ../../.tools -out ../../bin/images -version v1 -arch amd64,arm64
//
// Equal sources, toolchain and inputs make equal digests, wherever they stand. It is a Go module of
// its own, so that no program of Lateen links what it needs.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// options say what is made of what.
type options struct {
	source   string // Lateen's Go module
	tools    string // directory with envoy-ARCH and libc-ARCH for each architecture
	out      string // directory that gets a layout for each image
	version  string
	revision string // the commit, empty if it is not known
	created  time.Time
	archs    []string
}

func main() {
	o, err := read(os.Args[1:])
	if err == nil {
		err = write(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// read reads the flags. Images are as old as the variable SOURCE_DATE_EPOCH says, in seconds since
// 1970, and else as the commit of the source.
func read(args []string) (options, error) {
	var o options
	var archs string
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	flags.StringVar(&o.source, "source", ".", "the directory of Lateen's Go module")
	flags.StringVar(&o.tools, "tools", ".tools", "the directory with envoy-ARCH and libc-ARCH")
	flags.StringVar(&o.out, "out", "bin/images", "the directory that gets the layouts")
	flags.StringVar(&o.version, "version", "dev", "the version of the programs, and the tag")
	flags.StringVar(&o.revision, "revision", "", "the commit of the source (default: what git says)")
	flags.StringVar(&archs, "arch", "amd64,arm64", "the architectures, separated by commas")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.archs = strings.Split(archs, ",")
	for _, arch := range o.archs {
		if loaders[arch] == "" {
			return o, fmt.Errorf("-arch %q: want amd64 or arm64", arch)
		}
	}
	commit := func(format string) string {
		out, _ := exec.Command("git", "-C", o.source, "log", "-1", "--format="+format).Output() //nolint:gosec // ours
		return strings.TrimSpace(string(out))
	}
	if o.revision == "" {
		o.revision = commit("%H")
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		seconds = commit("%ct")
	}
	if seconds == "" {
		seconds = "0"
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return o, fmt.Errorf("SOURCE_DATE_EPOCH = %q: want seconds since 1970", seconds)
	}
	o.created = time.Unix(n, 0).UTC()
	return o, nil
}

// program is one of Lateen's: the package in cmd, and the variable that holds its version.
type program struct{ name, version string }

var (
	discovery = program{"lateen-discovery", "internal/cli/build.Version"}
	lateen    = program{"lateen", "internal/cli/build.Version"}
	installer = program{"lateen-installer", "internal/cli/build.Version"}
	agent     = program{"lateen-agent", "internal/agent/command.version"}
)

// build builds a program for an architecture into a directory. The paths of this machine, its C
// compiler and the state of the work tree leave no trace in it.
func (p program) build(o options, arch, dir string) (string, error) {
	const module = "github.com/lateen-mesh/lateen/"
	path, err := filepath.Abs(filepath.Join(dir, p.name+"-"+arch))
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-tags", "grpcnotrace", "-trimpath", "-buildvcs=false", //nolint:gosec // ours
		"-ldflags", "-s -w -buildid= -X "+module+p.version+"="+o.version, "-o", path, "./cmd/"+p.name)
	cmd.Dir = o.source
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1",
		"GOARM64=v8.0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/%s for %s: %w\n%s", p.name, arch, err, out)
	}
	return path, nil
}
