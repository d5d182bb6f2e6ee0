// Package spec reads what users write to say what to install, and makes the values of the charts of
// it. Each field is honoured, reported, or an error:
//
//	values of the charts ─┐
//	--set path=value ─────┼─► Reader ─► Spec: namespace, revision, values, gateways
//	IstioOperator ────────┤        └──► Notes: what is done otherwise, or is without effect
//	Maistra's SMCP, SMMR ─┘
//
// It checks the mesh configuration and the settings with the code that reads them later, so that
// what a control plane would refuse is refused before anything is installed.
//
// It may import app/config, api/convert and what that needs, install and install/render.
package spec
