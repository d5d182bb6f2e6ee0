package licences

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// linked are the licences by which a module may be linked into Lateen, as SPDX names them. What
// tests alone use is not distributed, and may have the licences of tested too.
var (
	linked = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}
	tested = append([]string{"MPL-2.0"}, linked...)
)

// known says by which words the text of a licence is recognized: all of them are in it, in this
// spelling after spaces and line breaks have become one space. The first that fits counts.
var known = []struct {
	name  string
	words []string
}{
	{"AGPL", []string{"GNU AFFERO GENERAL PUBLIC LICENSE Version"}},
	{"LGPL", []string{"GNU LESSER GENERAL PUBLIC LICENSE Version"}},
	{"GPL", []string{"GNU GENERAL PUBLIC LICENSE Version"}},
	{"MPL-2.0", []string{"Mozilla Public License Version 2.0"}},
	{"Apache-2.0", []string{"Apache License Version 2.0, January 2004"}},
	{"Apache-2.0", []string{"Licensed under the Apache License, Version 2.0"}},
	{"BSD-3-Clause", []string{"Redistribution and use in source and binary forms", "endorse or promote products"}},
	{"BSD-2-Clause", []string{"Redistribution and use in source and binary forms", "THIS SOFTWARE IS PROVIDED"}},
	{"ISC", []string{"Permission to use, copy, modify, and/or distribute this software for any purpose"}},
	{"ISC", []string{"Permission to use, copy, modify, and distribute this software for any purpose"}},
	{"MIT", []string{"Permission is hereby granted, free of charge, to any person obtaining a copy", "AS IS"}},
}

var spaces = regexp.MustCompile(`[\s#]+`)

// licenceOf returns the licence of a text, or "unknown".
func licenceOf(text string) string {
	text = spaces.ReplaceAllString(text, " ")
	for _, l := range known {
		if !slices.ContainsFunc(l.words, func(words string) bool { return !strings.Contains(text, words) }) {
			return l.name
		}
	}
	return "unknown"
}

// isLicence reports whether a file of a module's root has a licence.
func isLicence(name string) bool {
	name = strings.ToUpper(name)
	return strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "LICENCE") ||
		strings.HasPrefix(name, "COPYING")
}

// licencesIn returns the licences of a module, each once.
func licencesIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		isOfDocuments := strings.HasSuffix(f.Name(), ".docs") // nothing of them is linked
		if f.IsDir() || isOfDocuments || !isLicence(f.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		if l := licenceOf(string(text)); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	slices.Sort(all)
	return all
}

// modules returns the modules of all packages that some packages import, and where they are.
func modules(t *testing.T, packages ...string) map[string]string {
	t.Helper()
	const format = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}"
	list := exec.Command("go", append([]string{"list", "-deps", "-f", format}, packages...)...)
	list.Dir = "../.."
	out, err := list.Output()
	require.NoError(t, err)
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if module, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			all[module] = dir
		}
	}
	return all
}

// embedded are the libraries that are embedded in a program, by name, and where they stand with
// their licences.
var embedded = map[string]string{"npm echarts 6.1.0": "../../internal/observe/htmlpage/assets"}

// TestEmbeddedLibrariesHaveAllowedLicences has a line for each in testdata/embedded.txt.
func TestEmbeddedLibrariesHaveAllowedLicences(t *testing.T) {
	var table strings.Builder
	for _, name := range slices.Sorted(maps.Keys(embedded)) {
		found := licencesIn(t, embedded[name])
		require.NotEmpty(t, found, "%s has no LICENSE in %s", name, embedded[name])
		for _, l := range found {
			require.Contains(t, linked, l, "the licence of %s; want one of %v", name, linked)
		}
		fmt.Fprintf(&table, "%s\t%s\n", name, strings.Join(found, ", "))
	}
	golden.File(t, "testdata/embedded.txt", table.String())
}

// Whoever adds a module sees its licence in testdata/licences.txt (-update writes it).
func TestModulesHaveAllowedLicences(t *testing.T) {
	distributed := modules(t, "./cmd/...")
	require.NotEmpty(t, distributed)
	all := modules(t, "-test", "./...")
	var table strings.Builder
	for _, module := range slices.Sorted(maps.Keys(all)) {
		found := licencesIn(t, all[module])
		require.NotEmpty(t, found, "module %s has no LICENSE, LICENCE or COPYING in %s", module, all[module])
		allowed, use := tested, "tests"
		if _, ok := distributed[module]; ok {
			allowed, use = linked, "linked"
		}
		for _, l := range found {
			require.Contains(t, allowed, l, "the licence of module %s (%s); want one of %v", module, use, allowed)
		}
		fmt.Fprintf(&table, "%s\t%s\t%s\n", module, use, strings.Join(found, ", "))
	}
	golden.File(t, "testdata/licences.txt", table.String())
}

func TestLicencesAreRecognized(t *testing.T) {
	for want, text := range map[string]string{
		"MIT":        "Permission is hereby granted, free of charge, to any person\nobtaining a copy … \"AS IS\"",
		"Apache-2.0": "   Apache License\n  Version 2.0, January 2004",
		"GPL":        "GNU GENERAL PUBLIC LICENSE\n  Version 3, 29 June 2007",
		"unknown":    "All rights reserved.",
	} {
		require.Equal(t, want, licenceOf(text))
	}
}
