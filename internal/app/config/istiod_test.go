package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestEveryVariableOfIstiodHasARow compares the table with the names that istiod reads
// (testdata/istiod-variables.txt: those that pilot/pkg/features registers), and with what FromEnv
// reads.
func TestEveryVariableOfIstiodHasARow(t *testing.T) {
	text, err := os.ReadFile("testdata/istiod-variables.txt")
	require.NoError(t, err)
	istiods := strings.Fields(string(text))
	require.Greater(t, len(istiods), 150)
	var rows []string
	read := map[string]bool{}
	_, err = FromEnv(func(name string) (string, bool) { read[name] = true; return "", false })
	require.NoError(t, err)
	for _, v := range Variables() {
		rows = append(rows, v.Name)
		if v.Name == "CLUSTER_ID" {
			continue // a flag's default, which the command reads
		}
		require.Equal(t, v.Stance == Honoured, read[v.Name], "%s: whether FromEnv reads it", v.Name)
		require.True(t, v.Stance == Honoured || v.Why != "", "%s says why", v.Name)
		require.NotContains(t, v.Why, "|", "it stands in a table")
	}
	require.Equal(t, rows, slices.Compact(slices.Clone(rows)), "a name has one row")
	require.Equal(t, slices.Sorted(slices.Values(istiods)), rows)
}

func TestUnheededVariables(t *testing.T) {
	unheeded := func(env map[string]string) (names []string) {
		for _, u := range UnheededIn(lookup(env)) {
			names = append(names, u.Name+"="+u.Value)
		}
		return names
	}
	require.Empty(t, unheeded(nil))
	require.Empty(t, unheeded(map[string]string{
		"PILOT_HTTP10": "true", "XDS_AUTH": "1", "PILOT_DNS_JITTER_DURATION": "0.1s",
		"PILOT_ENABLE_ANALYSIS": "F", "PILOT_XDS_CACHE_SIZE": "60000", "ANOTHER": "x", "PILOT_ENABLE_AMBIENT": "",
	}), "what is so anyway is not told")
	require.Equal(t, []string{"PILOT_ENABLE_AMBIENT=true", "PILOT_XDS_CACHE_SIZE=7", "XDS_AUTH=false"},
		unheeded(map[string]string{
			"XDS_AUTH": "false", "PILOT_ENABLE_AMBIENT": "true", "PILOT_XDS_CACHE_SIZE": "7",
		}))
	for _, v := range Variables() {
		if v.Stance == Fixed && v.Is == v.Default {
			require.Empty(t, unheeded(map[string]string{v.Name: v.Default}), "the default of %s", v.Name)
		}
	}
}

// TestPageOfVariablesIsCurrent holds the reference page; with -update it is written anew.
func TestPageOfVariablesIsCurrent(t *testing.T) {
	b := &strings.Builder{}
	b.WriteString(`# Variables of istiod

What Lateen does about each variable that istiod reads (` + "`pilot/pkg/features`" + ` of Istio 1.32 in
development). This page is made of the table by which the control plane says at its start, and
` + "`lateen precheck`" + ` of a running istiod, which of them have no effect.

* **honoured**: read as istiod reads it. [Settings](settings.md) has the defaults here.
* **always**: it is so, whatever the variable says. Another value is told.
* **absent**: there is nothing here that it could set. A value other than istiod's default is told.

| variable | istiod's default | here | |
|---|---|---|---|
`)
	for _, v := range Variables() {
		here := map[Stance]string{Honoured: "honoured", Absent: "absent"}[v.Stance]
		if v.Stance == Fixed {
			here = "always " + code(v.Is)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", v.Name, code(v.Default), here, v.Why)
	}
	golden.File(t, "../../../docs/reference/istiod-variables.md", b.String())
}

func code(s string) string {
	if s == "" {
		return "none"
	}
	return "`" + s + "`"
}
