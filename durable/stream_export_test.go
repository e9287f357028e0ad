package durable

// UntriedStreamCommands are those that the stream scripts use and Check has no probe for.
func UntriedStreamCommands() []string {
	uses := streamUses("p")
	var untried []string
	for _, c := range streamCommands() {
		if uses[c] == nil {
			untried = append(untried, c)
		}
	}
	return untried
}
