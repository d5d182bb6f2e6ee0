// Package imports holds one test: that packages import only what stands to their left in the flow.
package imports
