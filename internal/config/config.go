package config

import (
	"fmt"
	"strconv"
	"time"
)

// Config are the settings of the pipeline.
type Config struct {
	// DebounceAfter is the quiet period that ends a batch of changes (PILOT_DEBOUNCE_AFTER, 100ms).
	DebounceAfter time.Duration
	// DebounceMax is the longest that a change waits for its batch (PILOT_DEBOUNCE_MAX, 10s).
	DebounceMax time.Duration
	// EDSDebounce tells whether changes of endpoints alone wait too (PILOT_ENABLE_EDS_DEBOUNCE, true).
	EDSDebounce bool
	// PushThrottle is how many pushes may be under way at a time (PILOT_PUSH_THROTTLE, 0: from the machine's size).
	PushThrottle int
	// MaxRequestsPerSecond is how many streams may begin per second (PILOT_MAX_REQUESTS_PER_SECOND, 0: from the
	// machine's size).
	MaxRequestsPerSecond float64
	// MaxRecvMsgSize is the largest request in bytes (ISTIO_GPRC_MAXRECVMSGSIZE, 4 MiB).
	MaxRecvMsgSize int
}

// FromEnv reads the settings through lookup, which is os.LookupEnv in a process. A value that cannot be read is an error
// that names the variable, the value and what would be right.
func FromEnv(lookup func(string) (string, bool)) (Config, error) {
	r := reader{lookup: lookup}
	c := Config{
		DebounceAfter:        read(&r, "PILOT_DEBOUNCE_AFTER", 100*time.Millisecond, duration),
		DebounceMax:          read(&r, "PILOT_DEBOUNCE_MAX", 10*time.Second, duration),
		EDSDebounce:          read(&r, "PILOT_ENABLE_EDS_DEBOUNCE", true, boolean),
		PushThrottle:         read(&r, "PILOT_PUSH_THROTTLE", 0, count),
		MaxRequestsPerSecond: read(&r, "PILOT_MAX_REQUESTS_PER_SECOND", 0, rate),
		MaxRecvMsgSize:       read(&r, "ISTIO_GPRC_MAXRECVMSGSIZE", 4<<20, count),
	}
	return c, r.err
}

type reader struct {
	lookup func(string) (string, bool)
	err    error
}

func read[T any](r *reader, name string, standard T, parse func(string) (T, error)) T {
	text, ok := r.lookup(name)
	if !ok || text == "" {
		return standard
	}
	v, err := parse(text)
	if err != nil {
		if r.err == nil {
			r.err = fmt.Errorf("environment variable %s = %q: %w", name, text, err)
		}
		return standard
	}
	return v
}

func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a duration such as 100ms or 2.5s")
	}
	return d, nil
}

func boolean(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("want true or false")
	}
	return b, nil
}

func count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("want a whole number, 0 or greater")
	}
	return n, nil
}

func rate(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0) {
		return 0, fmt.Errorf("want a number, 0 or greater")
	}
	return f, nil
}
