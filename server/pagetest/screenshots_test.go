package pagetest

import (
	"bytes"
	"cmp"
	"database/sql"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/server"
)

// TestScreenshots writes pictures of pages into the directory DIBS_SCREENSHOTS, as make screenshots does.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("DIBS_SCREENSHOTS")
	if dir == "" {
		t.Skip("DIBS_SCREENSHOTS names no directory")
	}
	file := filepath.Join(t.TempDir(), "jobs.db")
	s := furnish(t, database(t, open.URL("sqlite:"+file)))
	s.invent(file)
	url := serve(t, s, server.Options{})
	for _, look := range []struct {
		name  string
		width int64
		theme string
	}{{"light", 1280, "light"}, {"dark", 1280, "dark"}, {"phone", 390, "light"}, {"phone-dark", 390, "dark"}} {
		b := newTab(t, url)
		b.theme(look.theme)
		b.size(look.width)
		for name, path := range map[string]string{
			"overview": "/", "queue": "/queues/mail", "dead": fmt.Sprintf("/jobs/%d", s.dead), "job": fmt.Sprintf("/jobs/%d", s.completed),
			"failures": "/failures", "groups": "/groups?queue=invoices&group=ACME+Ltd", "blocked": fmt.Sprintf("/jobs/%d", s.blocked), "workers": "/workers", "schedules": "/schedules",
			"changes": "/changes", "flow": fmt.Sprintf("/jobs/%d", s.bind), "flow-dead": fmt.Sprintf("/jobs/%d", s.split), "flow-gone": fmt.Sprintf("/jobs/%d", s.gone), "flow-queue": "/queues/books", "search": "/queues/mail?state=dead&error=refused&since=2h",
		} {
			b.open(path)
			if name != "search" { // this page is not loaded again by itself
				b.until(on)
			}
			picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
			s.check(err)
			small, err := palette(picture)
			s.check(err)
			s.check(os.WriteFile(filepath.Join(dir, "page-"+name+"-"+look.name+".png"), small, 0o644))
		}
	}
}

// palette writes a picture anew with the 256 colours that it has most of.
func palette(picture []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	area := full.Bounds()
	count := map[color.RGBA]int{}
	for y := range area.Dy() {
		for x := range area.Dx() {
			count[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) })
	var most color.Palette
	for _, c := range colours[:min(len(colours), 256)] {
		most = append(most, c)
	}
	reduced := image.NewPaletted(area, most)
	draw.Draw(reduced, area, full, area.Min, draw.Src)
	var b bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, reduced)
	return b.Bytes(), err
}

// invent gives the database an hour of history, and its jobs the times to it.
func (s *shop) invent(file string) {
	db, err := sql.Open("sqlite", file)
	s.check(err)
	defer db.Close()
	now := time.Now().Unix() / 60
	for i := range int64(60) {
		in := int64(180 + 90*math.Sin(float64(i)/7) + 40*math.Sin(float64(i)*1.7))
		out, died := in-int64(12*math.Cos(float64(i)/5)), int64(0)
		if i > 40 && i < 47 {
			out, died = in/3, in/8
		}
		for queue, part := range map[string]int64{"": 1, "mail": 2} {
			_, err := db.ExecContext(s.Context(), `insert or replace into dibs_history (minute, queue, enqueued, claimed, succeeded, failed, died, wait_us, run_us)
				values (?, ?, ?, ?, ?, ?, ?, 0, 0)`, now-60+i, queue, in/part, out/part, out/part, 0, died/part)
			s.check(err)
		}
	}
}
