"""Memory savings: keys measured under other settings, and ranked changes without double counting."""
