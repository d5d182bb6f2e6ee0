package perf

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

const (
	// otherDescriptors is how many files, sockets and pipes a process has open beside those of
	// sidecars.
	otherDescriptors = 128
	// memoryOfSidecar is what a connected sidecar takes of the control plane, of the process that
	// simulates it, and of the kernel, in bytes: with 19,000 sidecars of 1,000 services it was 120
	// kB. memoryOfPlane is what there is without any.
	memoryOfSidecar, memoryOfPlane = 150_000, 400 << 20
)

// LimitError says that a machine is too small for so many sidecars.
type LimitError struct {
	Sidecars int
	Fits     int    // so many it has room for
	Lacks    string // what it lacks, and what would help
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%d sidecars do not fit: %s; %d sidecars do fit", e.Sidecars, e.Lacks, e.Fits)
}

// CheckLimits reports whether this machine has room for so many sidecars beside a control plane. It
// looks before anything starts, since what is missing shows as connections that never come. The
// error is a LimitError.
func CheckLimits(sidecars int) error { return roomFor(sidecars, measure.ThisRoom()) }

func roomFor(sidecars int, room measure.Room) error {
	if sidecars == 0 {
		return nil
	}
	if most := room.Descriptors - otherDescriptors; room.Descriptors > 0 && sidecars > most {
		return &LimitError{sidecars, max(most, 0), fmt.Sprintf(
			"each takes a file descriptor of the control plane and one of the process that simulates it, and the "+
				"limit here is %d for each process (ulimit -Hn; as root, ulimit -n %d raises it, or LimitNOFILE= of a "+
				"systemd unit)", room.Descriptors, sidecars+otherDescriptors,
		)}
	}
	if most := int((room.Memory - memoryOfPlane) / memoryOfSidecar); room.Memory > 0 && sidecars > most {
		return &LimitError{sidecars, max(most, 0), fmt.Sprintf(
			"they take some %d MiB of memory with their control plane, and %d MiB are free (of the machine, or of the "+
				"container's limit)", (memoryOfPlane+int64(sidecars)*memoryOfSidecar)>>20, room.Memory>>20,
		)}
	}
	return nil
}
