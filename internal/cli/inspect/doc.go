// Package inspect owns the commands that look: at a control plane and its proxies (status, version,
// proxy-config, describe, authz, dashboard), at manifests (analyze, inject), and at what could be
// tuned (advise). A command's constructor is NAME in NAME.go; a long command has more files that
// begin with its name.
//
// Its commands ask by cli/remote, and read manifests by app. It runs nothing that goes on.
package inspect
