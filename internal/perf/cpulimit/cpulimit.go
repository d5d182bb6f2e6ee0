package cpulimit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// period is that of Kubernetes' limits, in microseconds.
const period = 100_000

// Group is a control group. Processes that were added share its CPU.
type Group struct {
	dir string
	v2  bool
}

// Hierarchy is where this machine has control groups of CPU.
type Hierarchy struct {
	root string
	v2   bool
}

// Find returns where groups can be made. The error says what is missing, and what would help.
func Find() (Hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Hierarchy{}, fmt.Errorf("limits of CPU need control groups: %w", err)
	}
	h, err := parseMounts(string(mounts))
	if err != nil {
		return Hierarchy{}, err
	}
	probe, err := h.New("lateen-probe", 1000)
	if err != nil {
		return Hierarchy{}, err
	}
	return h, probe.Close()
}

// parseMounts finds the control groups of CPU in the text of /proc/self/mountinfo (proc(5)): v2 if
// it has the controller, or else v1.
func parseMounts(text string) (Hierarchy, error) {
	var found []Hierarchy
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		if !ok || len(where) < 5 || len(what) < 3 {
			continue
		}
		root := where[4]
		switch what[0] {
		case "cgroup2":
			controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
			if err == nil && slices.Contains(strings.Fields(string(controllers)), "cpu") {
				return Hierarchy{root, true}, nil
			}
		case "cgroup":
			if slices.Contains(strings.Split(what[2], ","), "cpu") {
				found = append(found, Hierarchy{root, false})
			}
		}
	}
	if len(found) == 0 {
		return Hierarchy{}, errors.New("limits of CPU need control groups, and this machine has mounted none with " +
			"the controller cpu (cgroup2 at /sys/fs/cgroup)")
	}
	return found[0], nil
}

// New makes a group that may use so many thousandths of a CPU. Its name begins with a text.
func (h Hierarchy) New(name string, milli int) (*Group, error) {
	refused := func(err error) error {
		return fmt.Errorf("this process may not limit the CPU of others: %w; want root, and %s writable "+
			"(in a container: one that is privileged)", err, h.root)
	}
	if h.v2 {
		// A group that has processes of its own has no place for ours.
		if err := os.WriteFile(filepath.Join(h.root, "cgroup.subtree_control"), []byte("+cpu"), 0o600); err != nil {
			return nil, refused(err)
		}
	}
	dir, err := os.MkdirTemp(h.root, name+"-")
	if err != nil {
		return nil, refused(err)
	}
	g := &Group{dir, h.v2}
	if err := g.Set(milli); err != nil {
		return nil, errors.Join(refused(err), g.Close())
	}
	return g, nil
}

// Set changes how many thousandths of a CPU the group may use.
func (g *Group) Set(milli int) error {
	quota := milli * period / 1000
	if g.v2 {
		return g.write("cpu.max", fmt.Sprintf("%d %d", quota, period))
	}
	if err := g.write("cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
		return err
	}
	return g.write("cpu.cfs_quota_us", strconv.Itoa(quota))
}

// Add puts a process and its threads under the limit.
func (g *Group) Add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

func (g *Group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o600)
}

// Throttled returns how long threads of the group have waited for their share.
func (g *Group) Throttled() (time.Duration, error) {
	file := filepath.Join(g.dir, "cpu.stat")
	stat, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(stat)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		unit := map[string]time.Duration{"throttled_usec": time.Microsecond, "throttled_time": time.Nanosecond}[name]
		if n, err := strconv.ParseInt(value, 10, 64); unit > 0 && err == nil {
			return time.Duration(n) * unit, nil
		}
	}
	return 0, fmt.Errorf("%s has neither throttled_usec nor throttled_time", file)
}

// Close removes the group. Its processes have ended.
func (g *Group) Close() error {
	if err := os.Remove(g.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
