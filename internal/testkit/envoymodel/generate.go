package envoymodel

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Generate makes a script of a seed, always the same one. It lets a server do what servers do and
// much that they should not: clusters without their endpoints, routes before their listeners,
// refused and undecodable resources, repeated names, dropped streams; all over few names, so that
// things meet.
func Generate(p Protocol, seed uint64) *Script {
	g := newGenerator(p, seed, Clusters, Endpoints, Listeners, Routes)
	g.line("settle")
	g.bursts()
	return g.script
}

// GenerateVHDS makes a script of a seed for an Envoy that has its clusters, and whose route tables
// change between their two forms.
func GenerateVHDS(seed uint64) *Script {
	g := newGenerator(Delta, seed, Listeners, Routes, VirtualHosts)
	g.tables = true
	return g.fromOneCluster()
}

// GenerateLEDS makes a script of a seed for an Envoy whose endpoints change between lists and
// collections.
func GenerateLEDS(seed uint64) *Script {
	g := newGenerator(Delta, seed, Clusters, Endpoints, Members)
	g.collections = true
	return g.fromOneCluster()
}

// GenerateECDS makes a script of a seed for an Envoy with listeners that name filters.
func GenerateECDS(seed uint64) *Script {
	g := newGenerator(Delta, seed, Listeners, Filters, Routes)
	g.filters = true
	return g.fromOneCluster()
}

func newGenerator(p Protocol, seed uint64, kinds ...Kind) *generator {
	g := &generator{
		rand: rand.New(rand.NewPCG(seed, uint64(p))), kinds: kinds,
		script: &Script{Name: fmt.Sprintf("seed-%d", seed), Protocol: p, Drain: DefaultDrain},
	}
	for k := range g.has {
		g.has[k] = map[string]string{}
	}
	return g
}

func (g *generator) fromOneCluster() *Script {
	for _, line := range []string{"settle", "cds s1:1", "settle"} {
		g.line(line)
	}
	g.bursts()
	return g.script
}

func (g *generator) bursts() {
	for range 4 + g.rand.IntN(4) {
		g.burst()
		g.line("settle")
	}
}

type generator struct {
	rand   *rand.Rand
	script *Script
	kinds  []Kind
	tables bool // some route tables have VHDS
	// collections tells that some endpoints are in collections.
	collections bool
	// filters tells that some listeners name filters.
	filters bool
	has     [numKinds]map[string]string // what was sent last of each name, for full responses
}

func (g *generator) line(text string) {
	st, err := parseStep(text, strings.Fields(text))
	if err != nil {
		panic(err) // the generator writes the notation as it is read
	}
	g.script.Steps = append(g.script.Steps, st)
}

func (g *generator) oneOf(percent int) bool { return g.rand.IntN(100) < percent }

// burst is one to four responses, in the order of make before break or in any.
func (g *generator) burst() {
	if g.oneOf(12) {
		g.line("drop")
		return
	}
	ordered := g.oneOf(70)
	for _, k := range g.kinds {
		if !ordered {
			k = g.kinds[g.rand.IntN(len(g.kinds))]
		}
		if g.oneOf(55) {
			g.response(k)
		}
	}
	if g.oneOf(5) {
		g.line("drop")
	}
}

var letters = [numKinds]string{"esed", "e", "c", "l", "r", "v", "f"}

func (g *generator) response(k Kind) {
	notes := map[string]string{}
	for range 1 + g.rand.IntN(3) {
		name := g.name(k)
		switch _, known := g.has[k][name]; {
		case notes[name] != "":
		case known && g.oneOf(25):
			delete(g.has[k], name)
			notes[name] = "-" + name
		default:
			notes[name] = g.note(k, name)
			g.has[k][name] = notes[name]
		}
	}
	words := []string{k.String()}
	if g.script.Protocol == StateOfTheWorld && k.wildcard() {
		notes = g.has[k]
	}
	for _, name := range sortedKeys(notes) {
		if notes[name][0] != '-' || g.script.Protocol == Delta {
			words = append(words, notes[name])
		}
	}
	if g.oneOf(4) && len(words) > 1 {
		words = append(words, words[len(words)-1]) // twice
	}
	g.line(strings.Join(words, " "))
}

func (g *generator) name(k Kind) string {
	letter := letters[k][g.rand.IntN(len(letters[k]))]
	if k == VirtualHosts {
		return fmt.Sprintf("r%d/v%d", 1+g.rand.IntN(3), 1+g.rand.IntN(3))
	}
	if k == Members {
		return fmt.Sprintf("c%d/m%d", 1+g.rand.IntN(4), 1+g.rand.IntN(3))
	}
	return fmt.Sprintf("%c%d", letter, 1+g.rand.IntN(3))
}

func (g *generator) note(k Kind, name string) string {
	flag := ""
	switch n := g.rand.IntN(100); {
	case n < 7 && k == Members: // with a wrong address it would abort
	case n < 7:
		flag = string(flagWrong)
	case n < 10:
		flag = string(flagInvalid)
	case n < 12:
		flag = string(flagUndecodable)
	case n < 20 && k == Listeners:
		flag = string(flagOutside)
	case n < 16 && k == VirtualHosts:
		flag = string(flagOtherName)
	case g.tables && n < 80 && k == Routes:
		flag = string(flagHead)
	}
	note := fmt.Sprintf("%s:%d%s", name, 1+g.rand.IntN(3), flag)
	switch k {
	case Endpoints:
		if g.collections && flag == "" && g.oneOf(60) {
			return note + ">c" + []string{"1", "2", "3", "1+c4", "2+c4"}[g.rand.IntN(5)] // not one for two clusters
		}
		return note + "=" + []string{"", "1", "2", "1,2", "1,2,3"}[g.rand.IntN(5)]
	case Listeners:
		if flag == "" && g.oneOf(20) {
			return note + ">>" + g.name(Clusters)
		}
		note += ">" + g.name(Routes)
		if g.filters && flag != string(flagWrong) && g.oneOf(70) {
			note += "+" + g.name(Filters)
		}
		return note
	case Members:
		return fmt.Sprintf("%s=%d", note, 1+g.rand.IntN(4))
	case VirtualHosts:
		return note + []string{"", "", "", "=1", "=1,2", "=2,3"}[g.rand.IntN(6)]
	case Routes:
		if flag == string(flagHead) && !g.oneOf(15) {
			return note
		}
		return note + ">" + g.name(Clusters)
	}
	return note
}
