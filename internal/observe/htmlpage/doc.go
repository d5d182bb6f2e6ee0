// Package htmlpage makes a page of charts and tables: one HTML file that fetches nothing when it is
// opened. Charts are drawn by Apache ECharts 6.1.0 (assets/, from the npm package echarts). The
// package imports nothing of the product.
package htmlpage
