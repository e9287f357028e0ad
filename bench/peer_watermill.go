package main

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

const (
	topic = "bench"
	group = "workers"
)

var watermillPeer = implementation{
	name:   "watermill",
	module: "github.com/ThreeDotsLabs/watermill-redisstream",
	config: "one consumer group, one subscription per worker (a subscription handles its messages one after the other), " +
		"no logger, DisableIndefiniteInitialBlock; connections for every worker and producer; everything else as it comes",
	open: func(e *env) (queue, error) {
		q := &watermillQueue{rdb: e.client(), sub: e.client()}
		var err error
		q.publisher, err = redisstream.NewPublisher(redisstream.PublisherConfig{Client: q.rdb}, watermill.NopLogger{})
		return q, err
	},
}

type watermillQueue struct {
	rdb, sub  *redis.Client
	publisher *redisstream.Publisher
}

func (q *watermillQueue) submit(ctx context.Context, payload []byte) error {
	return q.enqueue(ctx, payload)
}

func (q *watermillQueue) enqueue(ctx context.Context, payload []byte) error {
	return q.publisher.Publish(topic, message.NewMessageWithContext(ctx, watermill.NewUUID(), payload))
}

func (q *watermillQueue) flush(context.Context) error { return nil }

func (q *watermillQueue) consume(ctx context.Context, workers int, handle func([]byte)) error {
	subscriber, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: q.sub, ConsumerGroup: group, DisableIndefiniteInitialBlock: true,
	}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	for range workers {
		messages, err := subscriber.Subscribe(ctx, topic)
		if err != nil {
			return err
		}
		go func() {
			for m := range messages {
				handle(m.Payload)
				m.Ack()
			}
		}()
	}
	return nil
}

func (q *watermillQueue) left(ctx context.Context, _ int64) (int64, error) {
	p, err := q.rdb.XPending(ctx, topic, group).Result()
	if err != nil {
		return 0, err
	}
	return p.Count, nil
}
