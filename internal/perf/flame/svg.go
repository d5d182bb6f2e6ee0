package flame

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Sizes in pixels. A character of the monospaced font is about 0.6 times as wide as its size.
const (
	width     = 1200
	margin    = 10
	rowHeight = 17
	head      = 48 // title and legend
	charWidth = 6.7
	fontSize  = 11

	titleChars = 140 // what fits, in bold of 14 pixels

	rootColour = "#ececec" // of the root
)

// owner is whose code a function is.
type owner struct {
	name, colour string
	prefixes     []string
}

// owners returns the owners in the order of matching. The last matches everything.
func owners() []owner {
	return []owner{
		{"Lateen", "#7fb2e5", []string{"github.com/lateen-mesh/"}},
		{"gRPC, HTTP/2, TLS", "#f2b56b", []string{
			"google.golang.org/grpc", "golang.org/x/net/http2", "net/http", "crypto/tls",
		}},
		{"protobuf, JSON", "#c9a6e0", []string{
			"google.golang.org/protobuf", "encoding/json", "k8s.io/apimachinery", "sigs.k8s.io/",
		}},
		{"system calls", "#e58a8a", []string{
			"syscall.", "internal/runtime/syscall", "internal/poll.", "net.(*", "golang.org/x/sys/unix",
		}},
		{"Go's runtime", "#c8ccd0", []string{
			"runtime.", "runtime/", "internal/runtime/", "gcWriteBarrier", "memeq", "aeshash", "[GC]",
		}},
		{"others", "#b9dba0", nil},
	}
}

// colourOf returns the colour of a function's owner.
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

// SVG draws a tree with a title. The tooltip of each frame has its full name and share.
func (t *Tree) SVG(title string) []byte {
	d := drawing{owners: owners(), all: float64(max(t.Value, 1)), height: head + t.depth()*rowHeight + margin}
	d.printf(
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
			`width="%d" height="%d" font-family="monospace" font-size="%d">`+"\n",
		width,
		d.height,
		width,
		d.height,
		fontSize,
	)
	d.printf(`<rect width="100%%" height="100%%" fill="#fff"/>` + "\n")
	d.printf(`<text x="%d" y="20" font-size="14" font-weight="bold">%s</text>`+"\n", margin, escaped(
		truncate(title, titleChars),
	))
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
		d.printf(
			`<rect x="%.0f" y="29" width="11" height="11" fill="%s"/><text x="%.0f" y="39">%s</text>`+"\n",
			x,
			o.colour,
			x+15,
			o.name,
		)
		x += 15 + charWidth*float64(len(o.name)+2)
	}
}

// frame draws a function at a distance from the left and so many rows above the lowest, and above
// it those that it called.
func (d *drawing) frame(t *Tree, left float64, row int) {
	wide := float64(t.Value) / d.all * (width - 2*margin)
	colour := rootColour
	if row > 0 {
		colour = colourOf(t.Name, d.owners)
	}
	y := d.height - margin - (row+1)*rowHeight
	d.printf(`<g><title>%s: %.1f %%</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, escaped(t.Name),
		100*float64(t.Value)/d.all,
		left, y, max(wide-0.5, 0.1), rowHeight-1, colour)
	if text := truncate(shortName(t.Name), int((wide-6)/charWidth)); text != "" {
		d.printf(`<text x="%.1f" y="%d">%s</text>`, left+3, y+rowHeight-5, escaped(text))
	}
	d.printf("</g>\n")
	for _, c := range t.Children {
		d.frame(c, left, row+1)
		left += float64(c.Value) / d.all * (width - 2*margin)
	}
}

// shortName returns a function's name without the path of its package.
func shortName(function string) string {
	generic, _, _ := strings.Cut(function, "[")
	return function[strings.LastIndexByte(generic, '/')+1:]
}

// minChars is the shortest label that is drawn.
const minChars = 3

// truncate cuts a text to so many characters. It returns "" if fewer than minChars are left.
func truncate(text string, chars int) string {
	switch {
	case chars < minChars:
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
