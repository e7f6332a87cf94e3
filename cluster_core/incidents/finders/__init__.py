"""One finder a kind of incident: failures, failovers, moves of slots, memberships, troubles."""
