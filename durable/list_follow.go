package durable

import "context"

// OpenFollower obtains an identity for following. A follower that awaits uses one connection of its own; all those of a
// handle share it.
func (l *List) OpenFollower(ctx context.Context) (Follower, error) {
	return l.openFollower(ctx, l.keys.prefix, &follower{run: l.run, scripts: &l.scripts.follower})
}

// Tell reports on claims, all in one request.
func (c *listConsumer) Tell(ctx context.Context, tellings []Telling) error {
	l := c.list
	if err := checkTellings(l.name, tellings); err != nil {
		return err
	}
	if len(tellings) == 0 {
		return nil
	}
	_, _, err := l.run(ctx, l.redis.commands, l.scripts.tell, tellingArgs(c.id, tellings)...)
	return err
}
