package durable

import "context"

// Tell reports on claims, all in one request. What is kept is this group's.
func (c *streamConsumer) Tell(ctx context.Context, tellings []Telling) error {
	s := c.stream
	if err := checkTellings(s.name, tellings); err != nil {
		return err
	}
	args := make([]any, 0, 1+4*len(tellings))
	args = append(args, len(tellings))
	for i := range tellings {
		t := &tellings[i]
		args = append(args, t.ID, t.Token, flag(t.Progress != nil), t.Progress)
	}
	_, _, err := s.run(ctx, s.redis.commands, streamScripts.tell, args...)
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
