package durable

import "context"

// Check asks the server whether the queue can run on it.
func (s *Stream) Check(ctx context.Context) error {
	_, err := s.Stats(ctx)
	return err
}
