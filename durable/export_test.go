package durable

// Waiting is how many commands wait for a place in the lane of commands.
func (r *Redis) Waiting() int {
	r.commands.mu.Lock()
	defer r.commands.mu.Unlock()
	return len(r.commands.waiting)
}
