package durable

import "context"

// Tell is not possible.
func (c *streamConsumer) Tell(context.Context, []Telling) error {
	return failed(c.stream.name, "tell", ErrUnsupported, nil)
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
