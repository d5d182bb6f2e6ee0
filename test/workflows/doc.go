// Package workflows tests what no run of CI reaches: that the targets, files, commands and flags
// exist which workflows and scripts name, that the steps of the nightly measuring keep its history
// on a branch, time after time, in a checkout that an earlier job has left, and that publishing
// runs the commands that it prints.
package workflows
