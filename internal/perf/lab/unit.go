package lab

import (
	"fmt"
	"strconv"
	"time"
)

// Unit is that of a figure.
type Unit string

// The units.
const (
	Count   Unit = "count"
	Seconds Unit = "seconds"
	Bytes   Unit = "bytes"
	// Cores are CPUs in use, on average.
	Cores Unit = "cores"
	// PerSecond and PerMinute are rates.
	PerSecond Unit = "per second"
	PerMinute Unit = "per minute"
	Percent   Unit = "percent"
)

// Format returns a figure for people.
func (u Unit) Format(v float64) string {
	switch u {
	case Seconds:
		return formatSeconds(v)
	case Bytes:
		return formatBytes(v)
	case Cores:
		return fmt.Sprintf("%.2f", v)
	case Percent:
		return strconv.FormatFloat(v, 'f', 1, 64) + " %"
	case PerSecond:
		return fmt.Sprintf("%.1f/s", v)
	case PerMinute:
		return fmt.Sprintf("%.0f/min", v)
	}
	return thousands(int64(v + 0.5))
}

func formatSeconds(v float64) string {
	switch d := time.Duration(v * float64(time.Second)); {
	case d <= 0:
		return "0"
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", v)
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", 1000*v)
	default:
		return fmt.Sprintf("%d µs", d.Microseconds())
	}
}

func formatBytes(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.2f GB", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.1f MB", v/1e6)
	default:
		return fmt.Sprintf("%.0f kB", v/1e3)
	}
}

// thousands separates them by commas.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
