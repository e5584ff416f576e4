package server

import (
	"compress/gzip"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// minZip is how long an answer must be to be packed, in bytes.
const minZip = 1 << 10

// zip packs the answers of a handler for clients that accept gzip. It costs the server least time among
// the levels.
var zip = func() func(http.Handler) http.HandlerFunc {
	wrapper, err := gzhttp.NewWrapper(gzhttp.MinSize(minZip), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false), gzhttp.SetContentType(false))
	if err != nil {
		panic(err) // cannot happen: the options are constant
	}
	return wrapper
}()
