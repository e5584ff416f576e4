package rowstore

import (
	"context"
	"hash/fnv"

	"github.com/dibs-queue/dibs"
)

// On a cluster the calls about a queue go to one node as long as it is there, since transactions on two nodes that write the same
// rows fail. All calls find that node by one byte, the place of the queue; the tokens of its claims begin with it.

type placeKey struct{}

// Place is the place of what a call is about, if it has one.
func Place(ctx context.Context) (place byte, ok bool) {
	place, ok = ctx.Value(placeKey{}).(byte)
	return place, ok
}

func (s *Store) near(ctx context.Context, place func() byte) context.Context {
	if c := s.concurrent(); c == nil || !c.Certified || ctx == nil {
		return ctx
	}
	return context.WithValue(ctx, placeKey{}, place())
}

// nearQueue has a call go to the node of a queue.
func (s *Store) nearQueue(ctx context.Context, queue string) context.Context {
	return s.near(ctx, func() byte { return PlaceOf(queue) })
}

// nearClaim has a call go to the node of a claim's queue.
func (s *Store) nearClaim(ctx context.Context, token dibs.Token) context.Context {
	return s.near(ctx, func() byte { return token[0] })
}

// nearUpkeep has a call go to the node for what is about all queues.
func (s *Store) nearUpkeep(ctx context.Context) context.Context { return s.nearQueue(ctx, "") }

// PlaceOf is the place of a queue.
func PlaceOf(queue string) byte {
	h := fnv.New32a()
	_, _ = h.Write([]byte(queue)) // never fails
	return byte(h.Sum32() % 256)
}
