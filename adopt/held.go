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

// held remembers the claims of this process, and the keys of ids that are hashes. Claims can
// also be read from the table, as those of other processes are.
type held struct {
	mu     sync.Mutex
	claims map[dibs.Lease]*claim
	keys   map[int64]string // keys of the ids that are hashes: the newest, maxKeys at most
	older  map[int64]string // the keys of earlier ids, so that none is forgotten too early
	limit  int              // number of claims from which put forgets old ones
}

// claim is the claim of one row.
type claim struct {
	key     string // the row's key, a JSON array
	fence   string // exact values that the claim wrote, a JSON array; empty with a side table
	attempt int
	most    int       // attempts after which the row is dead; 0: no limit
	until   time.Time // approximate end of the lease on this machine's clock
	sameTx  bool      // the transaction that finishes the claim has also made it
	read    bool      // the claim was read from the table: this process has not made it, or has ended it
}

func (h *held) init() {
	h.claims, h.keys, h.limit = map[dibs.Lease]*claim{}, map[int64]string{}, 20_000
}

const maxKeys = 100_000

// firstHash is the smallest id that is a hash of a key. Smaller ids are keys themselves.
const firstHash = 1 << 62

// id is the id of the job for a key. A key that is one whole number from 1 on is its own id;
// other keys get a hash, which is the same in every process unless this one uses it for
// another key.
func (h *held) id(key string) int64 {
	if n, err := strconv.ParseInt(key[1:len(key)-1], 10, 64); err == nil && n > 0 && n < firstHash {
		return n
	}
	sum := sha256.Sum256([]byte(key))
	n := int64(binary.BigEndian.Uint64(sum[:])>>2) | firstHash
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		known, taken := h.keyOf(n)
		if !taken || known == key {
			if len(h.keys) >= maxKeys {
				h.older, h.keys = h.keys, map[int64]string{}
			}
			h.keys[n] = key
			return n
		}
		n = (n+1)&(firstHash-1) | firstHash
	}
}

// key is the inverse of id.
func (h *held) key(id int64) (string, bool) {
	if id < firstHash {
		return keyText(id), true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keyOf(id)
}

// keyOf is called with mu held.
func (h *held) keyOf(id int64) (string, bool) {
	key, ok := h.keys[id]
	if !ok {
		key, ok = h.older[id]
	}
	return key, ok
}

func (h *held) put(l dibs.Lease, c *claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.claims) > h.limit { // some claims are never finished by this process
		for l, c := range h.claims {
			if time.Since(c.until) > time.Hour {
				delete(h.claims, l)
			}
		}
		h.limit = 2*len(h.claims) + 20_000
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
	delete(h.claims, l)
}

// tokenOf is the token of a claim without a side table: the token that the claim wrote into
// the row, or a hash of the values of its fence.
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
