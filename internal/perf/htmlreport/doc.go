// Package htmlreport draws reports of lateen perf: a directory of JSON files becomes one HTML file
// with charts, which sets versions side by side. The package imports observe/htmlpage,
// perf/measure, perf/dataplane and perf.
package htmlreport
