// Package imports holds two tests: that packages import only what stands to their left in the flow,
// and that nothing is linked with which the linker would keep all that is never called.
package imports
