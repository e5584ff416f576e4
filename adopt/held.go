package adopt

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// held is what this process remembers of the claims it has made, and the numbers
// that stand for keys which are none. All of it can be read from the table again:
// what another process claimed is looked up.
type held struct {
	mu     sync.Mutex
	claims map[dibs.Lease]*claim
	keys   map[int64]string // what the numbers that id gave out stand for
	prune  int              // how many claims there may be before old ones are forgotten
}

// claim is one row, claimed.
type claim struct {
	key     string // a JSON array
	fence   string // a JSON array: exactly what the claim wrote; empty with a side table
	attempt int
	until   time.Time // on this machine's clock, about when the lease ends
	own     bool      // the transaction that finishes it has made it
}

func (h *held) init() {
	h.claims, h.keys, h.prune = map[dibs.Lease]*claim{}, map[int64]string{}, 20_000
}

// firstHash is where the numbers of keys begin that are not whole numbers themselves.
const firstHash = 1 << 62

// id is the number by which jobs go for a key. Keys of one whole number from 1 on
// are their own; others get one that is made of the key, so that it is the same
// in every process, unless another key in use here has it.
func (h *held) id(key string) int64 {
	if n, err := strconv.ParseInt(key[1:len(key)-1], 10, 64); err == nil && n > 0 && n < firstHash {
		return n
	}
	sum := sha256.Sum256([]byte(key))
	n := int64(binary.BigEndian.Uint64(sum[:])>>2) | firstHash
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		known, taken := h.keys[n]
		if !taken || known == key {
			h.keys[n] = key
			return n
		}
		n = (n+1)&(firstHash-1) | firstHash
	}
}

// key is the key that a number stands for.
func (h *held) key(id int64) (string, bool) {
	if id < firstHash {
		return keyText(id), true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key, ok := h.keys[id]
	return key, ok
}

func (h *held) put(l dibs.Lease, c *claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.claims) > h.prune { // some were never finished here
		for l, c := range h.claims {
			if time.Since(c.until) > time.Hour {
				h.forget(l)
			}
		}
		h.prune = 2*len(h.claims) + 20_000
	}
	h.claims[l] = c
}

func (h *held) get(l dibs.Lease) *claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.claims[l]
}

func (h *held) drop(l dibs.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(l)
}

func (h *held) forget(l dibs.Lease) {
	delete(h.claims, l)
	delete(h.keys, l.ID)
}

// tokenOf is the token of a claim that is fenced by what it wrote: the token that
// it wrote, or one that is made of the values.
func tokenOf(p *adopted.Plan, fence string) dibs.Token {
	var values []string
	if p.Claim.Token != "" && json.Unmarshal([]byte(fence), &values) == nil && len(values) == 1 {
		var t dibs.Token
		if err := t.UnmarshalText([]byte(strings.ReplaceAll(values[0], "-", ""))); err == nil {
			return t
		}
	}
	sum := sha256.Sum256([]byte(fence))
	return dibs.Token(sum[:16])
}
