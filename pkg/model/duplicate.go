package model

// SuspectDuplicate marks a call that is being registered as a possible
// duplicate of an earlier one of its topic: the same tool with the same input,
// whose outcome is, or once was, not known. The model may be repeating what it
// got no answer to, so a policy's allow does not let it run unasked: running
// it again is a new call with a new card (I4). A call that does not run is
// left as it is.
func (c *Call) SuspectDuplicate(of CallID) {
	switch {
	case c.State == CallApprovalRequested:
	case c.State == CallInputAvailable && c.AllowedBy != "":
		c.State, c.AllowedBy = CallApprovalRequested, ""
		c.Approval = &Approval{
			ID: NewApprovalID(), State: ApprovalRequested, Rule: Requirement{Quorum: 1}, Policies: []string{"possible duplicate"},
		}
	default:
		return
	}
	c.DuplicateOf = of
}
