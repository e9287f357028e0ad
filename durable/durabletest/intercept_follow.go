package durabletest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-9dec4fca/weir/durable"
)

// A wrapper has the methods of durable.Teller and durable.FollowEngine whatever it wraps. Where that has none they are
// durable.ErrUnsupported, as Info says.

func unsupported(inner any, op Op) error {
	return fmt.Errorf("durabletest: %s: %w: %T has no such call", op, durable.ErrUnsupported, inner)
}

func (c *consumer) Tell(ctx context.Context, tellings []durable.Telling) error {
	teller, ok := c.inner.(durable.Teller)
	if !ok {
		return unsupported(c.inner, OpTell)
	}
	tellings = slices.Clone(tellings)
	for i := range tellings {
		tellings[i].Progress = bytes.Clone(tellings[i].Progress)
	}
	_, err := through(ctx, c.hook, OpTell, c.ID(), bare(func(ctx context.Context) error {
		return teller.Tell(ctx, tellings)
	}))
	return err
}

func (c *consumer) Cancels(ctx context.Context) ([]durable.Ref, error) {
	teller, ok := c.inner.(durable.Teller)
	if !ok {
		return nil, unsupported(c.inner, OpCancels)
	}
	return through(ctx, c.hook, OpCancels, c.ID(), teller.Cancels)
}

func (e *engine) OpenFollower(ctx context.Context) (durable.Follower, error) {
	inner, ok := e.inner.(durable.FollowEngine)
	if !ok {
		return nil, unsupported(e.inner, OpOpenFollower)
	}
	f, err := through(ctx, e.hook, OpOpenFollower, "", inner.OpenFollower)
	if err != nil {
		return nil, err
	}
	return &follower{inner: f, hook: e.hook}, nil
}

type follower struct {
	inner durable.Follower
	hook  hook

	mu   sync.Mutex
	news durable.News // what the engine has given, and the caller has not got
}

func (f *follower) ID() string { return f.inner.ID() }

func (f *follower) Adopt(ctx context.Context, sender string, adopted bool) error {
	_, err := through(ctx, f.hook, OpAdopt, f.ID(), bare(func(ctx context.Context) error {
		return f.inner.Adopt(ctx, sender, adopted)
	}))
	return err
}

func (f *follower) Follow(ctx context.Context, ids []string) ([]durable.Record, error) {
	ids = slices.Clone(ids)
	return through(ctx, f.hook, OpFollow, f.ID(), func(ctx context.Context) ([]durable.Record, error) {
		return f.inner.Follow(ctx, ids)
	})
}

// Await gives what has come since the call that succeeded: also where that was lost on its way, which the engine
// cannot know.
func (f *follower) Await(ctx context.Context) (durable.News, error) {
	var news durable.News
	err := f.hook(ctx, OpFollowAwait, f.ID(), func(ctx context.Context) (func(), error) {
		got, err := f.inner.Await(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.news.Notices = append(f.news.Notices, got.Notices...)
		f.news.Gap = f.news.Gap || got.Gap
		return func() {
			if err != nil {
				return
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			news, f.news = f.news, durable.News{}
		}, err
	})
	return news, err
}

func (f *follower) Close(ctx context.Context) error {
	_, err := through(ctx, f.hook, OpCloseFollower, f.ID(), bare(f.inner.Close))
	return err
}

var (
	_ durable.FollowEngine = (*Gate)(nil)
	_ durable.FollowEngine = (*Faulty)(nil)
	_ durable.Teller       = (*consumer)(nil)
)
