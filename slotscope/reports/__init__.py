"""Tables to what a person reads: a terminal summary and one self-contained HTML file."""
