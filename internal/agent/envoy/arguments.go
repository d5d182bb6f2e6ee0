package envoy

import (
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

// Arguments returns Envoy's command line for the settings, without the name of the program.
func Arguments(s settings.Settings) []string {
	e := s.Envoy
	family := "v4"
	if s.Node.IPv6() {
		family = "v6"
	}
	args := []string{
		"--config-path", e.Bootstrap(),
		"--drain-time-s", strconv.Itoa(int(e.DrainTime.Seconds())),
		"--drain-strategy", "immediate", // all clients are asked to leave when a drain begins
		"--local-address-ip-version", family,
		"--file-flush-interval-msec", strconv.FormatInt(e.FlushInterval.Milliseconds(), 10),
		"--disable-hot-restart",
	}
	if e.FlushKB > 0 {
		args = append(args, "--file-flush-min-size-kb", strconv.FormatUint(uint64(e.FlushKB), 10))
	}
	level, components := splitLevel(e.LogLevel)
	if level != "" {
		args = append(args, "--log-level", level)
	}
	if components == "" {
		components = e.ComponentLogLevel
	}
	if components != "" {
		args = append(args, "--component-log-level", components)
	}
	if e.SkipDeprecatedLogs {
		args = append(args, "--skip-deprecated-logs")
	}
	if e.Override != "" {
		args = append(args, "--config-yaml", e.Override)
	}
	if e.Concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(e.Concurrency))
	}
	return args
}

// splitLevel splits "info,misc:error" into the level of all and those of components.
func splitLevel(level string) (all, components string) {
	var scoped []string
	for _, part := range strings.Split(level, ",") {
		if strings.Contains(part, ":") {
			scoped = append(scoped, part)
		} else {
			all = part
		}
	}
	return all, strings.Join(scoped, ",")
}
