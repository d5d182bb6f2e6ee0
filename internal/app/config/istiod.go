package config

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Stance is what Lateen does about a variable of istiod.
type Stance uint8

const (
	// Honoured is for a variable that FromEnv reads.
	Honoured Stance = iota
	// Fixed is for one whose subject is here, and always as Variable.Is says. Another value has no
	// effect.
	Fixed
	// Absent is for one whose subject is not here, so that no value has an effect.
	Absent
)

// Variable is one variable that istiod reads (pilot/pkg/features).
type Variable struct {
	Name    string
	Default string // istiod's; empty for none
	Stance  Stance
	// Is is the one value that Lateen acts by, where the variable is Fixed.
	Is string
	// Why says what there is in its place, or why there is nothing.
	Why string
}

// Variables returns what Lateen does about each variable of istiod, by name.
func Variables() []Variable {
	all := slices.Concat(honoured(), fixedDiscovery(), fixedTraffic(), fixedSecurity(), absent())
	slices.SortFunc(all, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Unheeded is a variable that is set to what Lateen does not do.
type Unheeded struct{ Name, Value, Why string }

// UnheededIn returns the variables of istiod that are set to what Lateen does not do, by name. A
// value that asks for what Lateen does anyway is left out.
func UnheededIn(lookup func(string) (string, bool)) []Unheeded {
	var out []Unheeded
	for _, v := range Variables() {
		if value, set := lookup(v.Name); set && value != "" && !v.heeds(value) {
			out = append(out, Unheeded{Name: v.Name, Value: value, Why: v.Why})
		}
	}
	return out
}

// heeds reports whether Lateen does what a value asks for, or nothing is asked for.
func (v *Variable) heeds(value string) bool {
	switch v.Stance {
	case Fixed:
		return sameValue(value, v.Is)
	case Absent:
		return sameValue(value, v.Default)
	default:
		return true
	}
}

// sameValue compares values as istiod reads them: 1 and true are the same, and so are 60s and 1m.
func sameValue(a, b string) bool {
	if a == b {
		return true
	}
	if x, err := strconv.ParseBool(a); err == nil {
		y, err := strconv.ParseBool(b)
		return err == nil && x == y
	}
	if x, err := time.ParseDuration(a); err == nil {
		y, err := time.ParseDuration(b)
		return err == nil && x == y
	}
	return false
}
