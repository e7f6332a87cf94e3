"""What must move at least, and which limits cannot be met together: certificates and their exact check."""
