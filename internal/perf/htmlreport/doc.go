// Package htmlreport draws reports of lateen perf: a directory of JSON files becomes one HTML file
// with charts, which sets versions side by side. The package imports cli/terminal,
// observe/advise, observe/htmlpage, perf/measure, perf/dataplane, perf/lab and perf.
package htmlreport
