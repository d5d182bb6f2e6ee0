package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lateen-mesh/lateen/internal/compile/offline"
	"github.com/lateen-mesh/lateen/internal/source"
)

// envoyJudge asks an Envoy whether it takes configuration.
type envoyJudge struct {
	ctx    context.Context
	binary string
	dir    string // for its bootstraps
}

// refused returns an error for each resource that Envoy refuses because of an EnvoyFilter. What it
// refuses without the object too is no fault of that.
func (j *envoyJudge) refused(patched []offline.Patched) (found []source.Problem, err error) {
	why, err := j.judge(patched, true)
	if err != nil || why == "" {
		return nil, err
	}
	if half := len(patched) / 2; half > 0 {
		first, err := j.refused(patched[:half])
		if err != nil {
			return nil, err
		}
		second, err := j.refused(patched[half:])
		return append(first, second...), err
	}
	p := patched[0]
	if p.Without != nil {
		without, err := j.judge(patched, false)
		if err != nil || without != "" {
			return nil, err
		}
	}
	return []source.Problem{{
		Severity: source.Error, Object: p.Owner, Origin: p.Origin, Path: "spec.configPatches",
		Message: fmt.Sprintf("Envoy refuses %s %s with the object: %s", p.Type, p.With.Name(), why),
		Want:    "patches after which Envoy takes it",
	}}, nil
}

// judge returns why Envoy refuses resources; empty if it takes them.
func (j *envoyJudge) judge(patched []offline.Patched, with bool) (why string, err error) {
	config, err := offline.Bootstrap(patched, with)
	if err != nil {
		return "", err
	}
	file := filepath.Join(j.dir, "bootstrap.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(j.ctx, j.binary, "--mode", "validate", "-c", file, "-l", "error").CombinedOutput()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case j.ctx.Err() != nil:
		return "", j.ctx.Err()
	case errors.As(err, &ended):
		return reason(string(out)), nil
	}
	return "", fmt.Errorf("%s cannot be run: %w; want the path of an Envoy", j.binary, err)
}

// reason is the last line that Envoy logs, without where it comes from, and cut to a line.
func reason(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	const most = 300
	line := strings.TrimSpace(lines[len(lines)-1])
	if _, after, found := strings.Cut(line, "bootstrap.json': "); found {
		line = after
	}
	if len(line) > most {
		line = line[:most] + "…"
	}
	return line
}
