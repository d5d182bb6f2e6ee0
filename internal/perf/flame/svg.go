package flame

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Sizes of the picture, in pixels. A character of the monospaced font is about 0.6 of its size wide.
const (
	width     = 1200
	margin    = 10
	rowHeight = 17
	head      = 48 // title and legend
	charWidth = 6.7
	fontSize  = 11

	titleChars = 140 // that fit, in bold of 14 pixels

	plain = "#ececec" // of what stands for all
)

// owner is whose code a function is.
type owner struct {
	name, colour string
	prefixes     []string
}

// owners are looked at in this order; the last takes what is left.
func owners() []owner {
	return []owner{
		{"Lateen", "#7fb2e5", []string{"github.com/lateen-mesh/"}},
		{"gRPC, HTTP/2, TLS", "#f2b56b", []string{"google.golang.org/grpc", "golang.org/x/net/http2", "net/http", "crypto/tls"}},
		{"protobuf, JSON", "#c9a6e0", []string{"google.golang.org/protobuf", "encoding/json", "k8s.io/apimachinery", "sigs.k8s.io/"}},
		{"system calls", "#e58a8a", []string{"syscall.", "internal/runtime/syscall", "internal/poll.", "net.(*", "golang.org/x/sys/unix"}},
		{"Go's runtime", "#c8ccd0", []string{"runtime.", "runtime/", "internal/runtime/", "gcWriteBarrier", "memeq", "aeshash", "[GC]"}},
		{"others", "#b9dba0", nil},
	}
}

// colourOf is that of a function's owner.
func colourOf(function string, all []owner) string {
	for _, o := range all {
		for _, p := range o.prefixes {
			if strings.HasPrefix(function, p) {
				return o.colour
			}
		}
	}
	return all[len(all)-1].colour
}

// SVG draws a tree, with a title above it. Each frame's full name and share are its tooltip.
func (t *Tree) SVG(title string) []byte {
	d := drawing{owners: owners(), all: float64(max(t.Value, 1)), height: head + t.depth()*rowHeight + margin}
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="monospace" font-size="%d">`+"\n",
		width, d.height, width, d.height, fontSize)
	d.printf(`<rect width="100%%" height="100%%" fill="#fff"/>` + "\n")
	d.printf(`<text x="%d" y="20" font-size="14" font-weight="bold">%s</text>`+"\n", margin, escaped(fitted(title, titleChars)))
	d.legend()
	d.frame(t, margin, 0)
	d.printf("</svg>\n")
	return d.out.Bytes()
}

type drawing struct {
	out    bytes.Buffer
	owners []owner
	all    float64
	height int
}

func (d *drawing) printf(format string, args ...any) { _, _ = fmt.Fprintf(&d.out, format, args...) }

func (d *drawing) legend() {
	x := float64(margin)
	for _, o := range d.owners {
		d.printf(`<rect x="%.0f" y="29" width="11" height="11" fill="%s"/><text x="%.0f" y="39">%s</text>`+"\n", x, o.colour, x+15, o.name)
		x += 15 + charWidth*float64(len(o.name)+2)
	}
}

// frame draws a function at a distance from the left and a number of rows above the lowest, and on it those that it called.
func (d *drawing) frame(t *Tree, left float64, row int) {
	wide := float64(t.Value) / d.all * (width - 2*margin)
	colour := plain
	if row > 0 {
		colour = colourOf(t.Name, d.owners)
	}
	y := d.height - margin - (row+1)*rowHeight
	d.printf(`<g><title>%s: %.1f %%</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, escaped(t.Name), 100*float64(t.Value)/d.all,
		left, y, max(wide-0.5, 0.1), rowHeight-1, colour)
	if text := fitted(short(t.Name), int((wide-6)/charWidth)); text != "" {
		d.printf(`<text x="%.1f" y="%d">%s</text>`, left+3, y+rowHeight-5, escaped(text))
	}
	d.printf("</g>\n")
	for _, c := range t.Children {
		d.frame(c, left, row+1)
		left += float64(c.Value) / d.all * (width - 2*margin)
	}
}

// short is a function's name without the path of its package.
func short(function string) string {
	generic, _, _ := strings.Cut(function, "[")
	return function[strings.LastIndexByte(generic, '/')+1:]
}

// fewest is how many characters are worth to be shown.
const fewest = 3

// fitted is a text cut to a number of characters; empty where too few would be left.
func fitted(text string, chars int) string {
	switch {
	case chars < fewest:
		return ""
	case utf8.RuneCountInString(text) <= chars:
		return text
	}
	return string([]rune(text)[:chars-1]) + "…"
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
