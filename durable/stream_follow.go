package durable

import "context"

// OpenFollower obtains an identity for following. What becomes of a job in this handle's group is told, and in no other
// one: jobs of a producer that belongs to it, and those that it has asked for. One that awaits uses one connection of its own; all
// those of a handle share it.
func (s *Stream) OpenFollower(ctx context.Context) (Follower, error) {
	return s.openFollower(ctx, s.keys.prefix, &follower{run: s.run, scripts: &streamScripts.follower})
}

// Tell reports on claims, all in one request. What is kept is this group's.
func (c *streamConsumer) Tell(ctx context.Context, tellings []Telling) error {
	s := c.stream
	if err := checkTellings(s.name, tellings); err != nil {
		return err
	}
	if len(tellings) == 0 {
		return nil
	}
	_, _, err := s.run(ctx, s.redis.commands, streamScripts.tell, tellingArgs(c.id, tellings)...)
	return err
}

// Cancels tells which of this consumer's claims are asked to be cancelled.
func (c *streamConsumer) Cancels(ctx context.Context) ([]Ref, error) {
	s := c.stream
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.cancels, c.id)
	if err != nil {
		return nil, err
	}
	var refs []Ref
	for len(answer) > 1 {
		refs = append(refs, Ref{ID: answer.text(), Token: answer.text()})
	}
	return refs, nil
}

var _ Teller = (*streamConsumer)(nil)
