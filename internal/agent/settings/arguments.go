package settings

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
)

// arguments are the command line of "proxy".
type arguments struct {
	kind              Type
	domain            string
	meshConfig        string
	serviceCluster    string
	logLevel          string
	componentLogLevel string
	outlierLogPath    string
	concurrency       int
	log               Log
	notices           []string
}

// notInForce are flags of pilot-agent that a template may set and that change nothing here.
var notInForce = []string{
	"stsPort", "tokenManagerPlugin", "templateFile", "profiling", "log_caller", "log_stacktrace_level", "log_target",
	"vklog", "keepaliveInterval", "keepaliveTimeout", "keepaliveMaxServerConnectionAge",
}

// parseArguments reads the type of proxy and the flags. An unknown flag is noted and left out, as
// pilot-agent does: templates of another release may have one.
func parseArguments(args []string) (arguments, error) {
	a := arguments{}
	f := pflag.NewFlagSet("proxy", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.ParseErrorsAllowlist.UnknownFlags = true
	f.StringVar(&a.domain, "domain", "", "")
	f.StringVar(&a.meshConfig, "meshConfig", "./etc/istio/config/mesh", "")
	f.StringVar(&a.serviceCluster, "serviceCluster", defaultCluster, "")
	f.StringVar(&a.logLevel, "proxyLogLevel", "warning", "")
	f.StringVar(&a.componentLogLevel, "proxyComponentLogLevel", "", "")
	f.StringVar(&a.outlierLogPath, "outlierLogPath", "", "")
	f.IntVar(&a.concurrency, "concurrency", 0, "")
	f.BoolVar(&a.log.JSON, "log_as_json", false, "")
	level := f.String("log_output_level", "info", "")
	for _, name := range notInForce {
		f.String(name, "", "")
		f.Lookup(name).NoOptDefVal = "true"
	}
	if err := f.Parse(args); err != nil {
		return a, err
	}
	a.notices = leftOut(f, args)
	a.kind = Sidecar
	if f.NArg() > 0 {
		a.kind = Type(f.Arg(0))
	}
	if a.kind != Sidecar && a.kind != Router {
		return a, fmt.Errorf("type of proxy %q is not supported; want %q or %q", a.kind, Sidecar, Router)
	}
	if a.concurrency < 0 {
		return a, fmt.Errorf("--concurrency: %d is negative", a.concurrency)
	}
	var err error
	a.log.Level, err = parseLevel(*level)
	return a, err
}

// leftOut says which flags were given that do nothing.
func leftOut(f *pflag.FlagSet, args []string) []string {
	var all []string
	for _, name := range notInForce {
		if f.Changed(name) {
			all = append(all, fmt.Sprintf("--%s is left out: the agent has no such function", name))
		}
	}
	for _, arg := range args {
		name, dashed := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if dashed && name != "" && f.Lookup(name) == nil {
			all = append(all, fmt.Sprintf("--%s is left out: the agent has no such flag", name))
		}
	}
	return all
}

// levels are the names that --log_output_level knows.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
	"error": slog.LevelError, "fatal": slog.LevelError, "none": slog.LevelError + 4,
}

// parseLevel reads levels as "info" or "default:info,xds:debug". The agent has one scope, so it
// takes the level that has none, or that of "default".
func parseLevel(s string) (slog.Level, error) {
	chosen := "info"
	for _, part := range strings.Split(s, ",") {
		scope, level, scoped := strings.Cut(part, ":")
		if !scoped {
			scope, level = "default", scope
		}
		if _, ok := levels[level]; !ok {
			const want = "--log_output_level: level %q does not exist; want debug, info, warn, error or none"
			return 0, fmt.Errorf(want, level)
		}
		if scope == "default" || scope == "all" {
			chosen = level
		}
	}
	return levels[chosen], nil
}
