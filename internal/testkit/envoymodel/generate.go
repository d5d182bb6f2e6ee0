package envoymodel

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Generate makes a script of a seed, always the same one. It lets a server do what servers do and much that they should not:
// clusters without their endpoints, routes before their listeners, refused and undecodable resources, repeated names, dropped
// streams; all over few names, so that things meet.
func Generate(p Protocol, seed uint64) *Script {
	g := &generator{
		rand: rand.New(rand.NewPCG(seed, uint64(p))), script: &Script{Name: fmt.Sprintf("seed-%d", seed), Protocol: p, Drain: DefaultDrain},
		has: [numKinds]map[string]string{{}, {}, {}, {}},
	}
	g.line("settle")
	for range 4 + g.rand.IntN(4) {
		g.burst()
		g.line("settle")
	}
	return g.script
}

type generator struct {
	rand   *rand.Rand
	script *Script
	has    [numKinds]map[string]string // what was sent last of each name, for full responses
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
	for k := range numKinds {
		if !ordered {
			k = Kind(g.rand.IntN(int(numKinds)))
		}
		if g.oneOf(55) {
			g.response(k)
		}
	}
	if g.oneOf(5) {
		g.line("drop")
	}
}

var letters = [numKinds]string{"esed", "e", "l", "r"}

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
	return fmt.Sprintf("%c%d", letter, 1+g.rand.IntN(3))
}

func (g *generator) note(k Kind, name string) string {
	flag := ""
	switch n := g.rand.IntN(100); {
	case n < 7:
		flag = string(flagWrong)
	case n < 10:
		flag = string(flagInvalid)
	case n < 12:
		flag = string(flagUndecodable)
	case n < 20 && k == Listeners:
		flag = string(flagOutside)
	}
	note := fmt.Sprintf("%s:%d%s", name, 1+g.rand.IntN(3), flag)
	switch k {
	case Endpoints:
		return note + "=" + []string{"", "1", "2", "1,2", "1,2,3"}[g.rand.IntN(5)]
	case Listeners:
		if flag == "" && g.oneOf(20) {
			return note + ">>" + g.name(Clusters)
		}
		return note + ">" + g.name(Routes)
	case Routes:
		return note + ">" + g.name(Clusters)
	}
	return note
}
